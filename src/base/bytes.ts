// bytes — an array as the bytes that it is made of, pieces of bytes joined in memory of their own, and memory that is
// given back before the collector finds it.

/** The same memory, not a copy. */
export function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** A copy: the parts are their owner's again when it returns. */
export function joinBytes(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/**
 * Gives the memory of a buffer that nobody else reads back at once; its views are empty from then on. Left to the
 * collector, large buffers count as garbage of the heap, and every 10 MiB or so of them V8 collects all of it. Shared
 * memory stays.
 */
export function freeBuffer({ buffer }: ArrayBufferView): void {
  if (buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0);
}
