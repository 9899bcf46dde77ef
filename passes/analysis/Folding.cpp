// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The walk of the fold algebra; see Folding.h and docs/folding.md.

#include "passes/analysis/Folding.h"

#include <algorithm>

namespace mlir::kvq::folding {

using Kind = Factor::Kind;

namespace {

/// Token tells tiles apart, and channel tells groups apart: the axes without what they imply.
Axes reduced(Axes axes) {
  if (axes & axisToken)
    axes &= ~axisTile;
  if (axes & axisChannel)
    axes &= ~axisGroup;
  return axes;
}

/// The list of a term in which a factor with this place stands.
enum class Bucket : uint8_t { fixed, tile, token, payload, none };

Bucket bucketOf(Place place) {
  switch (place) {
  case Place::query:
  case Place::output:
    return Bucket::fixed;
  case Place::query_per_tile:
  case Place::accumulator_per_tile:
    return Bucket::tile;
  case Place::score:
  case Place::score_per_group:
  case Place::probability:
  case Place::probability_per_group:
    return Bucket::token;
  case Place::elementwise:
    return Bucket::payload;
  default:
    return Bucket::none;
  }
}

int groupsOf(const Composition &composition) {
  return composition.group ? composition.dim / composition.group : 1;
}

int blockOf(const Composition &composition, const Factor &factor) {
  return factor.block ? factor.block : composition.dim;
}

/// A rotation commutes with a scale per group when it mixes channels of one group only.
bool withinGroups(const Composition &composition, const Factor &rotation) {
  return !composition.group || composition.group % blockOf(composition, rotation) == 0;
}

/// The walk from the outside in. Its state is what already stands outside of the factor at hand.
class Walk {
public:
  Walk(const Composition &composition, Side side, const ScoreRules &rules)
      : composition(composition), side(side), rules(rules) {}

  std::vector<Place> run() {
    std::vector<Place> places(composition.factors.size(), Place::elementwise);
    for (int i = static_cast<int>(places.size()) - 1; i >= 0; --i) {
      places[i] = place(i);
      // What lies inside of an element-wise factor is needed element by element.
      if (places[i] == Place::elementwise)
        break;
      enter(composition.factors[i], places[i]);
    }
    return places;
  }

private:
  const Composition &composition;
  Side side;
  ScoreRules rules;
  bool tokenFactors = false;   ///< a token factor stands outside
  bool groupedTokens = false;  ///< ... that varies over the groups
  bool tileOperations = false; ///< an operation per tile stands outside
  bool tileRotation = false;   ///< ... that is a rotation

  bool key() const { return side == Side::key; }
  Place fixedPlace() const { return key() ? Place::query : Place::output; }
  Place tilePlace() const { return key() ? Place::query_per_tile : Place::accumulator_per_tile; }
  Place tokenPlace(bool perGroup) const {
    if (key())
      return perGroup ? Place::score_per_group : Place::score;
    return perGroup ? Place::probability_per_group : Place::probability;
  }

  Place place(int index) const {
    const Factor &factor = composition.factors[index];
    Axes axes = reduced(factor.axes);
    if ((axes & axisToken) && (axes & axisChannel))
      return Place::elementwise;
    switch (factor.kind) {
    case Kind::map:
      return Place::elementwise;
    case Kind::scale:
      return placeScale(index, axes);
    case Kind::rotation:
      return placeRotation(factor, axes);
    case Kind::offset:
      return placeOffset(index, axes);
    }
    return Place::elementwise;
  }

  Place placeScale(int index, Axes axes) const {
    if (axes & axisToken)
      return tokenPlace(axes & axisGroup);
    if (axes == axisTile)
      return tokenPlace(false);
    if (axes == (axisTile | axisGroup))
      return tileIsCheaper(index) ? tilePlace() : tokenPlace(true);
    if (axes & axisTile)
      return tilePlace();
    // A constant commutes with everything; a diagonal does not pass a rotation that had to go per
    // tile.
    return axes && tileRotation ? tilePlace() : fixedPlace();
  }

  /// A scale per tile and group can stand on either side. On the token side it also bars the way of
  /// every rotation inside that crosses groups.
  bool tileIsCheaper(int index) const {
    for (int i = 0; i < index; ++i) {
      const Factor &inner = composition.factors[i];
      if (inner.kind == Kind::rotation && !withinGroups(composition, inner))
        return true;
    }
    return composition.dim <= groupsOf(composition) * composition.tile;
  }

  Place placeRotation(const Factor &factor, Axes axes) const {
    if (groupedTokens && !withinGroups(composition, factor))
      return Place::elementwise;
    return (axes & axisTile) || tileOperations ? tilePlace() : fixedPlace();
  }

  Place placeOffset(int index, Axes axes) const {
    if (axes & axisToken)
      return Place::bias_per_token;
    if (sharesFactorsOfCode(index))
      return Place::accumulator;
    if ((axes & axisTile) || tileOperations)
      return Place::bias_per_tile;
    if (!key() || tokenFactors || !rules.shiftInvariant)
      return Place::bias_constant;
    return rules.exportsLogSumExp ? Place::log_sum_exp : Place::dropped;
  }

  /// The offset stands innermost under token factors: adding it before they multiply saves an
  /// operation per token.
  bool sharesFactorsOfCode(int index) const {
    const auto &factors = composition.factors;
    return tokenFactors && !factors[index].exact &&
           std::all_of(factors.begin(), factors.begin() + index, [](const Factor &inner) {
             return inner.kind == Kind::map || inner.kind == Kind::offset;
           });
  }

  void enter(const Factor &factor, Place place) {
    switch (bucketOf(place)) {
    case Bucket::token:
      tokenFactors = true;
      groupedTokens |= (placeAxes(place) & axisGroup) != 0;
      break;
    case Bucket::tile:
      tileOperations = true;
      tileRotation |= factor.kind == Kind::rotation;
      break;
    default:
      break;
    }
  }
};

/// Appends an operation, or cancels it against its inverse right outside of it.
void addFixed(const Composition &composition, std::vector<int> &fixed, int index) {
  const Factor &factor = composition.factors[index];
  if (factor.kind == Kind::rotation && !fixed.empty()) {
    const Factor &outer = composition.factors[fixed.back()];
    if (outer.kind == Kind::rotation && outer.name == factor.name &&
        outer.transposed != factor.transposed) {
      fixed.pop_back();
      return;
    }
  }
  fixed.push_back(index);
}

/// The walk collects from the outside in; a term lists from the inside out.
Term innermostFirst(Term term) {
  for (std::vector<int> *list : {&term.payload, &term.token, &term.tile, &term.fixed})
    std::reverse(list->begin(), list->end());
  return term;
}

int64_t operations(const Composition &composition, const Factor &factor) {
  if (factor.kind != Kind::rotation)
    return factor.axes & (axisChannel | axisGroup) ? composition.dim : 1;
  int block = blockOf(composition, factor), steps = block;
  if (factor.fast)
    for (steps = 0; (1 << steps) < block;)
      ++steps;
  return static_cast<int64_t>(composition.dim) * steps;
}

/// The cost of a factor that stands in `term` as a multiplier; constant terms cost nothing at run
/// time.
Cost multiplierCost(const Plan &plan, int index) {
  const Composition &composition = plan.composition;
  const Factor &factor = composition.factors[index];
  Cost cost;
  switch (bucketOf(plan.places[index])) {
  case Bucket::fixed:
    cost.perQuery = operations(composition, factor);
    break;
  case Bucket::tile:
    cost.perTile = std::max<int64_t>(operations(composition, factor), composition.dim);
    break;
  case Bucket::token:
    cost.perToken = placeAxes(plan.places[index]) & axisGroup ? groupsOf(composition) : 1;
    break;
  case Bucket::payload:
    cost.perToken =
        factor.kind == Kind::rotation ? operations(composition, factor) : composition.dim;
    break;
  case Bucket::none:
    break;
  }
  return cost;
}

/// The cost of an offset with the term that it is the payload of.
Cost offsetCost(const Plan &plan, const Term &term) {
  const Composition &composition = plan.composition;
  Axes axes = reduced(composition.factors[term.offset].axes);
  Place place = plan.places[term.offset];
  bool grouped = axes & axisGroup;
  for (int index : term.token)
    grouped |= (placeAxes(plan.places[index]) & axisGroup) != 0;
  Cost cost;
  if (place == Place::dropped)
    return cost;
  // The sum over the channels (K), or the spread over the channels (V).
  (term.tile.empty() && !(axes & axisTile) ? cost.perQuery : cost.perTile) += composition.dim;
  // The starting value rides on the factors of the code; in V its weights have a sum of their own.
  bool rides = place == Place::accumulator && plan.side == Side::key;
  if ((axes & axisToken) || (!term.token.empty() && !rides) ||
      (plan.side == Side::value && !term.constant))
    cost.perToken += grouped ? groupsOf(composition) : 1;
  return cost;
}

void countCosts(Plan &plan) {
  plan.costs.assign(plan.places.size(), {});
  for (const Term &term : termsOf(plan)) {
    if (term.offset >= 0)
      plan.costs[term.offset] = offsetCost(plan, term);
    if (term.constant)
      continue;
    for (const std::vector<int> *list : {&term.payload, &term.token, &term.tile, &term.fixed})
      for (int index : *list)
        plan.costs[index] = multiplierCost(plan, index);
  }
  for (const Cost &cost : plan.costs) {
    plan.total.perToken += cost.perToken;
    plan.total.perTile += cost.perTile;
    plan.total.perQuery += cost.perQuery;
  }
}

Plan makePlan(const Composition &composition, Side side, const ScoreRules &rules) {
  Plan plan;
  plan.side = side;
  plan.composition = composition;
  plan.places = Walk(composition, side, rules).run();
  countCosts(plan);
  return plan;
}

} // namespace

std::string axesText(Axes axes) {
  std::string text;
  const std::pair<Axis, char> letters[] = {
      {axisToken, 't'}, {axisChannel, 'd'}, {axisGroup, 'g'}, {axisTile, 'T'}};
  for (auto [axis, letter] : letters)
    if (axes & axis)
      text += (text.empty() ? "" : ", ") + std::string(1, letter);
  return text.empty() ? "constant" : text;
}

std::string verifyComposition(const Composition &composition) {
  if (composition.dim < 1)
    return "a row needs at least one channel, got " + std::to_string(composition.dim);
  if (composition.tile < 1)
    return "a tile needs at least one token, got " + std::to_string(composition.tile);
  if (composition.group < 0 || (composition.group && composition.dim % composition.group))
    return "expected a group that divides " + std::to_string(composition.dim) + " channels, got " +
           std::to_string(composition.group);
  for (const Factor &factor : composition.factors) {
    if (factor.kind != Kind::rotation)
      continue;
    if (factor.axes & ~axisTile)
      return "rotation '" + factor.name + "' may vary per tile only, got axes " +
             axesText(factor.axes);
    if (factor.block < 0 || (factor.block && composition.dim % factor.block))
      return "rotation '" + factor.name + "' expects a block that divides " +
             std::to_string(composition.dim) + " channels, got " + std::to_string(factor.block);
  }
  return "";
}

const char *placeName(Place place) {
  static const char *const names[kPlaces] = {
      "query",           "query_per_tile",       "score",
      "score_per_group", "bias_per_token",       "bias_per_tile",
      "bias_constant",   "probability",          "probability_per_group",
      "accumulator",     "accumulator_per_tile", "output",
      "dropped",         "log_sum_exp",          "elementwise"};
  return names[static_cast<int>(place)];
}

Axes placeAxes(Place place) {
  switch (place) {
  case Place::query:
  case Place::output:
  case Place::bias_constant:
  case Place::dropped:
  case Place::log_sum_exp:
    return axisChannel | axisGroup;
  case Place::query_per_tile:
  case Place::accumulator_per_tile:
  case Place::accumulator:
  case Place::bias_per_tile:
    return axisChannel | axisGroup | axisTile;
  case Place::score:
  case Place::probability:
    return axisToken | axisTile;
  case Place::score_per_group:
  case Place::probability_per_group:
  case Place::bias_per_token:
    return axisToken | axisTile | axisGroup;
  case Place::elementwise:
    return axisToken | axisTile | axisChannel | axisGroup;
  }
  return 0;
}

std::vector<Term> termsOf(const Plan &plan) {
  const Composition &composition = plan.composition;
  std::vector<Term> terms;
  Term code;
  for (int i = static_cast<int>(plan.places.size()) - 1; i >= 0; --i) {
    switch (bucketOf(plan.places[i])) {
    case Bucket::fixed:
      addFixed(composition, code.fixed, i);
      break;
    case Bucket::tile:
      code.tile.push_back(i);
      break;
    case Bucket::token:
      code.token.push_back(i);
      break;
    case Bucket::payload:
      code.payload.push_back(i);
      break;
    case Bucket::none:
      if (composition.factors[i].kind != Kind::offset)
        break;
      Term term = code;
      term.payload.clear();
      term.offset = i;
      term.constant = code.token.empty() && code.tile.empty() &&
                      !(composition.factors[i].axes & (axisToken | axisTile));
      terms.push_back(innermostFirst(std::move(term)));
      break;
    }
  }
  terms.push_back(innermostFirst(std::move(code)));
  return terms;
}

Plan placeKey(const Composition &composition, const ScoreRules &rules) {
  return makePlan(composition, Side::key, rules);
}

Plan placeValue(const Composition &composition) { return makePlan(composition, Side::value, {}); }

std::string costText(const Cost &cost) {
  return std::to_string(cost.perToken) + " per token, " + std::to_string(cost.perTile) +
         " per tile, " + std::to_string(cost.perQuery) + " per query";
}

} // namespace mlir::kvq::folding
