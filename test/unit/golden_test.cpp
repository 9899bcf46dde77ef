// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bytes and manifest texts of records, against digests made by an independent model of the format.
#include "runtime/format/sha256.h"
#include "test/support/RecordContent.h"
#include "test/support/Records.h"

#include <gtest/gtest.h>

#include <map>

namespace kvq::test {
namespace {

struct Digests {
  const char *page, *text;
};

const std::map<std::string, Digests> golden = {
    {"d128_b2_g128_p16",
     {"36d349796549783025876bf0307e00c6b7e45feaf352dd1bd67dba2f5d788160",
      "4a91c46d5f7655abd429d242fd0c1002d90a1b9d756575157c7e1061f4df2786"}},
    {"d128_b2_g128_p32",
     {"cec7f0a8e782ff4b2155f471c11290c457a48ee3e06a73066a7178e8b48538e1",
      "ad9f9b55efd37f4a06644e5c61497cfd79bf58c9a446cc345cfe310904c4572a"}},
    {"d128_b2_g128_p64",
     {"b3169c8ee9c29e064b2c66035edeb52dea7bfacf1011a3bc17c48c1918fa4faf",
      "d945bf0f9f965255f5424875aaa1818065cf346cae06e1de6373aecde7fe4e35"}},
    {"d128_b2_g128_p128",
     {"6abd0814a996ab65645da901e3bf18f7d45745f19994486662d57071525863a9",
      "be113a3ceec3dcff4445fbd0db5cf85509536b7b61dfa7d3c9612ed91d1b0b50"}},
    {"d128_b2_sym_p64",
     {"2e08e611ee787e10ff62dcbc90c41846b9f16f5237144ed449516e7dc12a1654",
      "c00343fd1b27a65d47b82945f33c54ada49bb033a05083a2005a372f092a78fd"}},
    {"d128_b2_g32_p64",
     {"54917ac6cd3e731719fb9b42075e6f75d4dc71d34996f1b234cb1a7a322d43e7",
      "cb605c70e9a32f36f4b4ca50a8e3273ff880168ade219f08840d7e60f56135ea"}},
    {"d128_b4_g128_p64",
     {"2e92790eda6228c98fd487bc9f73691402d3da1a73ee0a2644d7fdefaac799d4",
      "4d7c307d47a20ea5fdbdd92ad3fcf4e3b07644f93770fea5a2f81b1ed619a4f3"}},
    {"d128_b8_p64",
     {"3a348221e6befcf0726b5f9b404d4323515a32d5d5fde1f1f20c1ce8388bd6b1",
      "30cc3a2c814059d2a741c11c261c8b23db4850c2f21d1b21b6d5aed25ea816d7"}},
    {"d128_b3_p64",
     {"8dd0924800657c0534503ab54b879dbab8c2547f8705aa41e3868a41ca458f3c",
      "01f697ad04428957fa98555707b40ce78f57921d853b361c74d42932d045ebbd"}},
    {"d128_k4v2_p64",
     {"86dbbf90c2500b901c37bb65f27b24502f6c7b54de91d171942d79181914be24",
      "4812cc2ca4f2402102238a78d40fda70f6013b459b401cd17da4156ade4da9d5"}},
    {"d128_b2_norm_nibble_p64",
     {"5e2f371f24687eaae4d7e129011fc2266882365f81a75c9645220887c241686d",
      "8832a55a41cf81e8adbe77cdd249deb248bdc7ee596b2bbbfd04b15a3fdb636f"}},
    {"d128_b2_zero_f32_p64",
     {"386f21f532377d75658b186b753d52bf17d85f3de13e9a053a56f765e5457f91",
      "501fa8a9982d5b0a72b44809618ebed8116a5c0deb0142ee2f687372ad470e62"}},
    {"d128_b2_g64_bf16_p16",
     {"96fb56d8a6dee433a6daa03fe47f614eabfcc333f31c6d6cf2740a285d798b91",
      "2238775b66c2504bde7009b0c83c81c76b806fc2308b9b4b1935da3b6b3b4133"}},
    {"kivi_d128_b2_g32_p64",
     {"c40bfec522f72564cc455a691df2d7a1056c4cdb5f0a5801a3d8c3875dee18bd",
      "16cc53ced0a19f78142ca7303d2f78b3986d4ee60f5c727d60a0543e74c233e5"}},
    {"kvarn_d128_k4v2_p128",
     {"ccdff48f0c87144b61e713e3ca62d34d8047d73a49bb7b8f975a326b8c716e30",
      "ce56af204f6c282b0dc4f7ed4b2baac8b51f0eb6cd70803dabb379a46b38bc6c"}},
    {"k192_v128_b2_p64",
     {"a827b46850b308eadd1533d61275ea0f7ac6f96402339e2a9f53cce049b8d6b1",
      "9bbd486dbb88e35aa2f95c450ada61ab939558a5980272fdc4e39d86edc9f67f"}},
    {"d32_b2_p64",
     {"b236a26fc257463529042ccc460e211c16755789432cb6923c3a1df379477571",
      "feb904450e35aa2258382a5ac339e0a39c4422275fc9a88835aa2acfd12afc0e"}},
    {"d64_b2_p64",
     {"e516ad5623ff3e146820874ccc674f8a27c4d027d1d6ef16ad59fd17f3972143",
      "5a1d18e991872cea88a2a81861587c2aac5d126976318fd3291a88701f34a51e"}},
    {"d80_b2_p64",
     {"36a35e27869337c81dbf54b027e55403324de3e846fe33b719e84d64a83bfdf1",
      "20887e269976976105f194d43a38819d88dfb95add85bbffbe16f5e26fb3791f"}},
    {"d96_b2_p64",
     {"091a1b55ed68410423383733dff2516064ebe4cddfb3f2b935005d787ee93110",
      "59943ec55960fda956be86985dafa31af815da6d9e531cfe8268d59e5f1f1ab5"}},
    {"d112_b2_p64",
     {"5e5ec2551d3edec09925719165a6d4ce4e5ba40ce41545ac36190ad6d812150b",
      "75df735591583884e9b9402a4910e18f9964e3cb916b2df1e72510d22e2e05cc"}},
    {"d160_b2_p64",
     {"3c69df78eae720c90fa22240b596ff46786389d115a59e80b6d3c7cbbff09f00",
      "887a7aa8b519e8e1b728b4d14e9fa3536da56ad2313ddd93949c5a127dabf642"}},
    {"d192_b2_p64",
     {"2ee71c8aeb256feb9d501dd8bf88725b3148cb489a9e9d7f0637cddc1a2d2f68",
      "3a075c6e34ccf59caf70662721b26eaa0b210ef7628cfa857d1a8f6a424c4afc"}},
    {"d224_b2_p64",
     {"b837075cb956679b4796e14ae1901e126ccdced24e2c8e54e8affa8387e07f78",
      "f2a4200ceb103ea1c763ff0e219747d86acc86d8c2a6904ce9d9e0ffc8a839dd"}},
    {"d256_b2_p64",
     {"61b077dddd4319bf02783a1a3701644528aaf0b408df94f4b96e311a2e8af9c1",
      "fef53c5d332e271be698ab223150eb007c6722c7f0d6c96823c6435b52c029b9"}},
    {"d512_b2_p64",
     {"70d95c8233f06edea621397452c4fe7d320914fe86f6902b938178174ae3a5cd",
      "4199cf09c128499bdc0ace1bbf486e7566104b8d911eae1f3454152e124ea2fa"}},
    {"d576_b2_p64",
     {"7cbb2c8b6202e681743dda5fa4863331eae0c8e04dbfc496361ff065877b4d74",
      "447d4cef83500cefeffbecf2777617ae1a3bf1bf9053c539c0dc61ae7ee31f34"}},
};

std::string digest(const void *data, size_t size) { return digestText(sha256(data, size)); }

TEST(Golden, PagesAndTexts) {
  EXPECT_EQ(goldenRecords().size(), golden.size());
  for (const NamedRecord &record : goldenRecords()) {
    SCOPED_TRACE(record.name);
    ASSERT_EQ(verifyRecord(record.spec), "");
    const RecordLayout layout = buildRecord(record.spec);
    EXPECT_EQ(layout.bytes, int64_t(record.tokenBytes) * record.spec.page);
    const std::vector<uint8_t> page = fillPage(layout);
    const std::string text = recordText(layout, record.name);
    ASSERT_TRUE(golden.count(record.name));
    EXPECT_EQ(digest(page.data(), page.size()), golden.at(record.name).page);
    EXPECT_EQ(digest(text.data(), text.size()), golden.at(record.name).text);
  }
}

TEST(Golden, ManifestText) {
  EXPECT_EQ(recordText(buildRecord(record(16, side(32))), "small"),
            R"({"record":1,"name":"small","tokens":16,"append":1,"bytes":384,"stride":384,)"
            R"("k":{"dim":32,"bits":2,"value":"scale*code+zero"},)"
            R"("v":{"dim":32,"bits":2,"value":"scale*code+zero"},"fields":[)"
            R"({"field":"k.code","type":"u2","shift":0,"channels":[0,32],"offset":0,)"
            R"("token":[[8,128],[2,16]],"channel":[[2,8],[2,2],[4,32],[2,4]],"size":128},)"
            R"({"field":"v.code","type":"u2","shift":0,"channels":[0,32],"offset":128,)"
            R"("token":[[2,16],[4,32],[2,8]],"channel":[[8,128],[2,4],[2,2]],"size":128},)"
            R"({"field":"k.scale","type":"f16","shift":0,"channels":[0,32],"offset":256,)"
            R"("token":[[8,128],[2,16]],"channel":[[32,0]],"size":32},)"
            R"({"field":"k.zero","type":"f16","shift":0,"channels":[0,32],"offset":260,)"
            R"("token":[[8,128],[2,16]],"channel":[[32,0]],"size":32},)"
            R"({"field":"v.scale","type":"f16","shift":0,"channels":[0,32],"offset":264,)"
            R"("token":[[8,128],[2,16]],"channel":[[32,0]],"size":32},)"
            R"({"field":"v.zero","type":"f16","shift":0,"channels":[0,32],"offset":268,)"
            R"("token":[[8,128],[2,16]],"channel":[[32,0]],"size":32}]})");
}

} // namespace
} // namespace kvq::test
