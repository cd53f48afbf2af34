// assert — checks of our own duties, always on. A failure is a bug in Weighbridge, never a user's or a peer's fault.
// A check on the path of every request is written out, `if (…) throw new AssertionError(…)`: it makes no message text.

export class AssertionError extends Error {
  override readonly name = "AssertionError";
}

export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
