// chunks — how the samples of a unit are dealt among the devices of a training: in chunks, each with memory of its own
// for its gradients. Either every device has one, or a device that has time claims the next: then large ones come
// first, and a device that is held up leaves small ones to the others.
//
// Invariants:
//   Chunks.C1. Which chunks there are follows from the numbers of samples and devices alone. So the same gradients are
//       added in the same order, no matter which device computes a chunk.

/** Samples from `from` on; none in a chunk that a device has if there are fewer samples than devices. */
export type Chunk = { readonly from: number; readonly count: number };

/** Fewer are not worth a pass through the network. */
const SAMPLES_MIN = 4;
/** Of all gradients of all chunks: what fits the cores' own caches, more or less. */
const GRADIENT_BYTES_MAX = 4 * 2 ** 20;

/** Whether chunks are claimed, and how many there can be: each has memory for gradients. */
export type Dealing = { readonly isClaimed: boolean; readonly chunkCountMax: number };

/** `usesWeightsOften`: a pass through the network takes much longer than to write its gradients. */
export function dealingOf(options: {
  readonly deviceCount: number;
  readonly sampleCountMax: number;
  readonly gradientBytes: number;
  readonly usesWeightsOften: boolean;
}): Dealing {
  const { deviceCount, sampleCountMax, gradientBytes, usesWeightsOften } = options;
  let chunkCountMax = 0;
  for (let count = 1; count <= sampleCountMax; count++) chunkCountMax = Math.max(chunkCountMax, claimedChunks(count, deviceCount).length);
  const isClaimed = usesWeightsOften && chunkCountMax > deviceCount && chunkCountMax * gradientBytes <= GRADIENT_BYTES_MAX;
  return { isClaimed, chunkCountMax: isClaimed ? chunkCountMax : deviceCount };
}

export function chunksOf(sampleCount: number, deviceCount: number, { isClaimed }: Pick<Dealing, "isClaimed">): readonly Chunk[] {
  return isClaimed ? claimedChunks(sampleCount, deviceCount) : ownChunks(sampleCount, deviceCount);
}

/** One for each device. The first has a sample if there is any. */
function ownChunks(sampleCount: number, deviceCount: number): readonly Chunk[] {
  const start = (device: number): number => Math.ceil((device * sampleCount) / deviceCount);
  return Array.from({ length: deviceCount }, (_, device) => ({ from: start(device), count: start(device + 1) - start(device) }));
}

/** Half of what is left for all devices together, and so on: of 64 samples for 2 devices 16, 16, 8, 8, 4, 4, 4, 4. */
function claimedChunks(sampleCount: number, deviceCount: number): readonly Chunk[] {
  const chunks: Chunk[] = [];
  for (let from = 0; from < sampleCount; ) {
    const size = Math.max(SAMPLES_MIN, Math.ceil((sampleCount - from) / (2 * deviceCount)));
    for (let device = 0; device < deviceCount && from < sampleCount; device++) {
      const count = Math.min(size, sampleCount - from);
      chunks.push({ from, count });
      from += count;
    }
  }
  return chunks;
}
