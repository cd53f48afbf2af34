// convolution — one image [channels][height][width] as a matrix whose product with the weights is its convolution
// (stride 1).
//
//   unfold   row (channel, dy, dx) of the matrix is the image shifted by (dy, dx), cut to the output's height and width
//   fold     its transpose: every number is added back to where it was taken from
//
// Padding is done once, by a frame of zeros, so that neither needs to ask where the image ends.

/** Copies planes of height × width into ones that have `frame` zeros on each side. */
export function framePlanes(source: usize, planes: u32, height: u32, width: u32, frame: u32, target: usize): void {
  const row: usize = width << 2, framed: usize = (width + 2 * frame) << 2, side: usize = frame << 2;
  memory.fill(target, 0, <usize>planes * (height + 2 * frame) * framed);
  target += framed * frame + side;
  for (let plane: u32 = 0; plane < planes; plane++, target += framed * frame * 2) {
    for (let y: u32 = 0; y < height; y++, source += row, target += framed) copyRow(source, width, target);
  }
}

/** Copies the planes back without their frames. */
export function unframePlanes(source: usize, planes: u32, height: u32, width: u32, frame: u32, target: usize): void {
  const row: usize = width << 2, framed: usize = (width + 2 * frame) << 2;
  source += framed * frame + (<usize>frame << 2);
  for (let plane: u32 = 0; plane < planes; plane++, source += framed * frame * 2) {
    for (let y: u32 = 0; y < height; y++, source += framed, target += row) copyRow(source, width, target);
  }
}

export function unfold(image: usize, channels: u32, height: u32, width: u32, size: u32, columns: usize): void {
  const row: usize = width << 2, outHeight = height - size + 1, outWidth = width - size + 1, out: usize = outWidth << 2;
  for (let channel: u32 = 0; channel < channels; channel++, image += row * height) {
    for (let dy: u32 = 0; dy < size; dy++) {
      for (let dx: u32 = 0; dx < size; dx++) {
        let source = image + row * dy + (<usize>dx << 2);
        for (let y: u32 = 0; y < outHeight; y++, source += row, columns += out) copyRow(source, outWidth, columns);
      }
    }
  }
}

/** Sets the image. */
export function fold(columns: usize, channels: u32, height: u32, width: u32, size: u32, image: usize): void {
  const row: usize = width << 2, outHeight = height - size + 1, outWidth = width - size + 1, out: usize = outWidth << 2;
  memory.fill(image, 0, <usize>channels * row * height);
  for (let channel: u32 = 0; channel < channels; channel++, image += row * height) {
    for (let dy: u32 = 0; dy < size; dy++) {
      for (let dx: u32 = 0; dx < size; dx++) {
        let target = image + row * dy + (<usize>dx << 2);
        for (let y: u32 = 0; y < outHeight; y++, target += row, columns += out) addRow(columns, outWidth, target);
      }
    }
  }
}

/** Rows are short, so memory.copy's call would cost more than the copy. The last four floats may be copied twice. */
@inline function copyRow(source: usize, floatCount: u32, target: usize): void {
  if (floatCount < 4) {
    for (let at: usize = 0; at < <usize>floatCount << 2; at += 4) store<f32>(target + at, load<f32>(source + at));
    return;
  }
  const last: usize = (floatCount - 4) << 2;
  for (let at: usize = 0; at < last; at += 16) v128.store(target + at, v128.load(source + at));
  v128.store(target + last, v128.load(source + last));
}

@inline function addRow(source: usize, floatCount: u32, target: usize): void {
  const end: usize = floatCount << 2, wide: usize = (floatCount & ~3) << 2;
  let at: usize = 0;
  for (; at < wide; at += 16) v128.store(target + at, f32x4.add(v128.load(target + at), v128.load(source + at)));
  for (; at < end; at += 4) store<f32>(target + at, load<f32>(target + at) + load<f32>(source + at));
}
