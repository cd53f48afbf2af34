// skipped-tests — how many tests and suites were skipped for which reason. Node counts a suite that is skipped as no
// test, and never hears of those in it.

/** A test or a suite that was skipped: `true` or "" without a reason. */
export type Skip = { readonly reason: string | true; readonly isSuite: boolean };

const UNTOLD = "no reason is given";

/** Lines for people, a line for each reason; "" when nothing was skipped. */
export function skippedText(skips: readonly Skip[]): string {
  if (skips.length === 0) return "";
  const groups = [...Map.groupBy(skips, ({ reason }) => (reason === true || reason === "" ? UNTOLD : reason))];
  const lines = groups
    .toSorted(([, one], [, other]) => other.length - one.length)
    .map(([reason, all]) => {
      const isOfTests = all.every(({ isSuite }) => !isSuite);
      return `  ${isOfTests ? all.length : countText(all)}: ${reason}`;
    });
  return [`${countText(skips)} ${skips.length === 1 ? "was" : "were"} skipped:`, ...lines].join("\n");
}

/** "3 tests and 1 suite" */
function countText(skips: readonly Skip[]): string {
  const suites = skips.filter(({ isSuite }) => isSuite).length;
  const counts = [
    { count: skips.length - suites, what: "test" },
    { count: suites, what: "suite" },
  ];
  return counts
    .filter(({ count }) => count > 0)
    .map(({ count, what }) => `${count} ${what}${count === 1 ? "" : "s"}`)
    .join(" and ");
}
