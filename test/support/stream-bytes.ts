// stream-bytes — the bytes of a stream that everybody knows: a part of it shows whether it is that part.

export function streamBytes(from: number, byteCount: number): Uint8Array {
  const bytes = new Uint8Array(byteCount);
  for (let i = 0; i < byteCount; i++) bytes[i] = ((from + i) * 31) >>> 3;
  return bytes;
}
