// free-buffer — memory that is given back before the collector finds it.

/**
 * Gives the memory of a buffer that nobody else reads back at once; its views are empty from then on. Left to the
 * collector, large buffers count as garbage of the heap, and every 10 MiB or so of them V8 collects all of it. Shared
 * memory stays.
 */
export function freeBuffer({ buffer }: ArrayBufferView): void {
  if (buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0);
}
