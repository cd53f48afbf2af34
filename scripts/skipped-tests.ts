// skipped-tests — which tests were skipped and why, from what Node's spec reporter wrote.

const UNTOLD = "no reason is given";

/** Lines for people, by reason; "" when none was skipped. */
export function skippedText(log: string): string {
  const skipped = [...log.matchAll(/^\s*﹣ (.*) \([\d.]+ms\) # (.*)$/gm)].map(([, name = "", reason = ""]) => ({
    name,
    reason: reason === "SKIP" ? UNTOLD : reason,
  }));
  if (skipped.length === 0) return "";
  const groups = [...Map.groupBy(skipped, ({ reason }) => reason)];
  const lines = groups.flatMap(([reason, tests]) => [`  ${reason}:`, ...tests.map(({ name }) => `    ${name}`)]);
  return [`skipped, ${skipped.length} of them, and why:`, ...lines].join("\n");
}
