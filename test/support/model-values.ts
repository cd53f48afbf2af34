// model-values — what the devices of model-device.ts push, and one number that stands for what they hold.

export function pushedValue(device: number, round: number, i: number): number {
  return Math.fround(((device * 311 + round * 71 + i * 13) % 1013) / 7);
}

/** Differs if a bit of the arrays does, but for one in some billions. */
export function digestOf(arrays: readonly Float32Array[]): number {
  let digest = 0;
  for (const array of arrays) {
    const words = new Int32Array(array.slice().buffer);
    for (let i = 0; i < words.length; i++) digest = (Math.imul(digest, 31) + words[i]!) | 0;
  }
  return digest;
}

/** What every device holds after a round: the sum in the order of devices, each step rounded. */
export function sumOf(devices: readonly number[], round: number, key: number, length: number): Float32Array {
  const values = (device: number, i: number): number => pushedValue(device, round, i + key);
  return Float32Array.from({ length }, (_, i) =>
    devices.slice(1).reduce((sum, device) => Math.fround(sum + values(device, i)), values(devices[0]!, i)),
  );
}
