// nearest-name — the known name that a mistyped one most likely meant, for error messages. Letter case is ignored.

/** "; did you mean sgd?", the end of an error message; "" for what is no text, such as a number instead of a name. */
export function didYouMean(typed: unknown, candidates: Iterable<string>): string {
  const nearest = typeof typed === "string" && typed !== "" ? nearestName(typed, candidates) : undefined;
  return nearest === undefined ? "" : `; did you mean ${nearest}?`;
}

/**
 * The nearest of the candidates, the first of several equally near; undefined when there are none. Initials stand for
 * their name: `lr` for `learningRate`. A common beginning counts as much as the distance: `workers` is nearer to
 * `workerCount` than to `role`.
 */
export function nearestName(typed: string, candidates: Iterable<string>): string | undefined {
  const wanted = typed.toLowerCase();
  let nearest: string | undefined;
  let best = Number.POSITIVE_INFINITY;
  for (const name of candidates) {
    if (wanted === initialsOf(name)) return name;
    const remoteness = editDistance(wanted, name.toLowerCase()) - commonBeginning(wanted, name.toLowerCase());
    if (remoteness >= best) continue;
    best = remoteness;
    nearest = name;
  }
  return nearest;
}

/** True when the two are so alike that one must be a slip for the other: up to 2 edits, fewer in a short name. */
export function isSlip(typed: string, name: string): boolean {
  return editDistance(typed.toLowerCase(), name.toLowerCase()) <= Math.min(2, Math.floor(name.length / 4));
}

/** `learningRate` has `lr`. */
function initialsOf(name: string): string {
  return `${name.slice(0, 1)}${name.slice(1).replaceAll(/[^A-Z]/g, "")}`.toLowerCase();
}

function commonBeginning(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return length;
}

/** The number of letters inserted, deleted, replaced or swapped with their neighbour (optimal string alignment). */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let best = Math.min(last[column]! + 1, current[column - 1]! + 1, last[column - 1]! + (same ? 0 : 1));
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (swapped) best = Math.min(best, beforeLast[column - 2]! + 1);
      current.push(best);
    }
    beforeLast = last;
    last = current;
  }
  return last[b.length]!;
}
