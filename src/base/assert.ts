// assert — checks of our own duties, always on. A failure is a bug in Weighbridge, never a user's or a peer's fault. A check that every request passes is
// written out, `if (…) throw new AssertionError(…)`: then neither a call nor the text of a message is made for it.

export class AssertionError extends Error {
  override readonly name = "AssertionError";
}

export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
