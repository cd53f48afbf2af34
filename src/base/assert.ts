// assert — checks of our own duties, always on. A failure is a bug in Weighbridge, never a user's or a peer's fault.

export class AssertionError extends Error {
  override readonly name = "AssertionError";
}

export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
