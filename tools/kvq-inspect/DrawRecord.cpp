// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-inspect/DrawRecord.h"

#include "tools/kvq-inspect/ByteMap.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace kvq {
namespace {

constexpr int kColumns = 64, kCellWidth = 34, kCellHeight = 30, kLeft = 56, kMargin = 16;
constexpr int kHeading = 26, kLine = 18;

struct Look {
  const char *name, *colour;
};
/// K is cold and V is warm, so that the sides are told apart at first sight.
constexpr Look kLooks[] = {
    {"k.code", "#cfe3f5"},  {"k.scale", "#8fbbe0"}, {"k.zero", "#b8aee6"},
    {"k.outer", "#8fd0d6"}, {"v.code", "#fde3c3"},  {"v.scale", "#f4b26b"},
    {"v.zero", "#f2a3a3"},  {"v.outer", "#d9c96a"}, {"padding", "#e4e4e4"},
};

std::string className(std::string name) {
  std::replace(name.begin(), name.end(), '.', '-');
  return name;
}

std::string escaped(const std::string &text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += uint8_t(c) < 0x20 ? ' ' : c;
  }
  return out;
}

/// Rows of cells that stand under one heading.
struct Section {
  std::string title;
  int64_t first, end; ///< bytes
};

std::vector<Section> sectionsOf(const RecordLayout &layout) {
  std::vector<Section> out;
  auto add = [&](const std::string &title, int64_t bytes) {
    const int64_t first = out.empty() ? 0 : out.back().end;
    if (bytes)
      out.push_back(
          {title + ", bytes " + std::to_string(first) + "-" + std::to_string(first + bytes - 1),
           first, first + bytes});
  };
  const int blocks = layout.spec.page / layout.spec.block;
  const int tiles = layout.spec.block / kTileTokens;
  for (int block = 0; block < blocks; ++block) {
    const std::string name = "block " + std::to_string(block);
    add(name + ": channel parameters of tokens " + std::to_string(block * layout.spec.block) + "-" +
            std::to_string((block + 1) * layout.spec.block - 1),
        layout.headBytes);
    for (int tile = 0; tile < tiles; ++tile) {
      const int token = block * layout.spec.block + tile * kTileTokens;
      add((tiles > 1 ? name + ", tile " : "tile ") + std::to_string(tiles > 1 ? tile : block) +
              ": tokens " + std::to_string(token) + "-" + std::to_string(token + kTileTokens - 1),
          layout.tileBytes);
    }
  }
  add("padding of the record", layout.stride - layout.bytes);
  return out;
}

class Picture {
public:
  Picture(const RecordLayout &layout, const std::string &name)
      : layout(layout), bytes(mapBytes(layout)) {
    caption(name);
    legend();
    for (const Section &section : sectionsOf(layout))
      draw(section);
  }

  std::string text() const {
    const int width = kLeft + kColumns * kCellWidth + kMargin;
    std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" +
                      std::to_string(width) + "\" height=\"" + std::to_string(y + kMargin) +
                      "\" viewBox=\"0 0 " + std::to_string(width) + " " +
                      std::to_string(y + kMargin) + "\">\n<style>\n";
    out += "text { font-family: 'DejaVu Sans Mono', monospace; font-size: 7.5px; "
           "text-anchor: middle; fill: #222 }\n"
           ".caption { font-size: 13px; text-anchor: start }\n"
           ".offset { font-size: 9px; text-anchor: end; fill: #666 }\n"
           "rect { stroke: #fff; stroke-width: 1 }\n";
    for (const Look &look : kLooks)
      out += "." + className(look.name) + " rect { fill: " + look.colour + " }\n";
    return out + "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" + body +
           "</svg>\n";
  }

private:
  void line(const std::string &words) {
    y += kLine;
    put("caption", kMargin, y, words);
  }
  void put(const char *style, int x, int atY, const std::string &words) {
    body += std::string("<text") + (*style ? std::string(" class=\"") + style + "\"" : "") +
            " x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(atY) + "\">" + escaped(words) +
            "</text>\n";
  }
  void box(int x, int atY, int width, int height) {
    body += "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(atY) + "\" width=\"" +
            std::to_string(width) + "\" height=\"" + std::to_string(height) + "\"/>";
  }

  void caption(const std::string &name) {
    char bits[32];
    std::snprintf(bits, sizeof bits, "%.3f", bitsPerElement(layout));
    line("record of " + name + ": page of " + std::to_string(layout.spec.page) +
         " tokens of one KV head, K " + std::to_string(layout.spec.k.dim) + " x " +
         std::to_string(layout.spec.k.bits) + " bits, V " + std::to_string(layout.spec.v.dim) +
         " x " + std::to_string(layout.spec.v.bits) + " bits");
    line(std::to_string(layout.bytes) + " bytes, " + std::to_string(layout.stride) +
         " with padding; " + bits + " bits per element");
    line("A cell is a byte. t: token, c: channel, L: lane of a warp (4 g + t) that reads it; "
         "5+32 is 5, 37, 69, ... The title of a cell says which bits are what.");
  }

  std::string nameOf(const RecordByte &byte) const {
    return byte.field < 0 ? "padding" : fieldName(layout.fields[size_t(byte.field)]);
  }

  void legend() {
    std::map<std::string, int64_t> sizes;
    std::map<std::string, std::string> types;
    for (const RecordByte &byte : bytes)
      ++sizes[nameOf(byte)];
    for (const Field &field : layout.fields) {
      std::string &type = types[fieldName(field)];
      if (type.find(fieldType(field)) == std::string::npos)
        type += (type.empty() ? "" : " + ") + fieldType(field);
    }
    y += kLine / 2;
    int x = kMargin;
    for (const Look &look : kLooks) {
      if (!sizes.count(look.name))
        continue;
      body += "<g class=\"" + className(look.name) + "\">";
      box(x, y, kLine, kLine);
      body += "</g>\n";
      const std::string type = types.count(look.name) ? " " + types[look.name] : "";
      const std::string words =
          look.name + type + ": " + std::to_string(sizes[look.name]) + " bytes";
      put("caption", x + kLine + 6, y + 13, words);
      x += kLine + 30 + 8 * int(words.size());
    }
    y += kLine;
  }

  void draw(const Section &section) {
    y += kHeading;
    put("caption", kLeft, y - 6, section.title);
    for (int64_t at = section.first; at < section.end; ++at) {
      const int column = int((at - section.first) % kColumns);
      if (column == 0) {
        y += at == section.first ? 0 : kCellHeight;
        put("offset", kLeft - 6, y + kCellHeight / 2 + 3, std::to_string(at));
      }
      cell(at, kLeft + column * kCellWidth);
    }
    y += kCellHeight;
  }

  void cell(int64_t at, int x) {
    const RecordByte &byte = bytes[size_t(at)];
    body += "<g class=\"" + className(nameOf(byte)) + "\"><title>" +
            escaped(byteText(layout, bytes, at)) + "</title>";
    box(x, y, kCellWidth, kCellHeight);
    body += "\n";
    if (byte.field >= 0) {
      put("", x + kCellWidth / 2, y + 9, "t" + shortText(tokensOf(byte)));
      put("", x + kCellWidth / 2, y + 18, "c" + shortText(channelsOf(byte)));
      put("", x + kCellWidth / 2, y + 27, "L" + shortText(lanesOf(byte)));
    }
    body += "</g>\n";
  }

  const RecordLayout &layout;
  const std::vector<RecordByte> bytes;
  std::string body;
  int y = kMargin / 2;
};

} // namespace

std::string drawRecord(const RecordLayout &layout, const std::string &name) {
  return Picture(layout, name).text();
}

} // namespace kvq
