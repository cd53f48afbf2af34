// bias — what is added to every row or column of a matrix, with or without a ReLU behind it, and the sums that are its
// gradient. Rows of a convolution's output are channels; columns of a dense layer's output are features.

/** Row i gets bias[i]; with `isRelu` negative sums become 0. NaN stays NaN. */
export function addBiasToRows(matrix: usize, rows: u32, columns: u32, bias: usize, isRelu: u32): void {
  const row: usize = columns << 2, wide: usize = (columns & ~3) << 2;
  for (let i: u32 = 0; i < rows; i++, matrix += row, bias += 4) {
    const value = load<f32>(bias), values = f32x4.splat(value);
    let at: usize = 0;
    for (; at < wide; at += 16) v128.store(matrix + at, floored(f32x4.add(v128.load(matrix + at), values), isRelu));
    for (; at < row; at += 4) store<f32>(matrix + at, flooredOne(load<f32>(matrix + at) + value, isRelu));
  }
}

/** Column j gets bias[j]. */
export function addBiasToColumns(matrix: usize, rows: u32, columns: u32, bias: usize, isRelu: u32): void {
  const row: usize = columns << 2, wide: usize = (columns & ~3) << 2;
  for (let i: u32 = 0; i < rows; i++, matrix += row) {
    let at: usize = 0;
    for (; at < wide; at += 16) v128.store(matrix + at, floored(f32x4.add(v128.load(matrix + at), v128.load(bias + at)), isRelu));
    for (; at < row; at += 4) store<f32>(matrix + at, flooredOne(load<f32>(matrix + at) + load<f32>(bias + at), isRelu));
  }
}

@inline function floored(x: v128, isRelu: u32): v128 {
  return isRelu != 0 ? f32x4.max(x, f32x4.splat(0)) : x;
}

@inline function flooredOne(x: f32, isRelu: u32): f32 {
  return isRelu != 0 ? max<f32>(x, 0) : x;
}

/**
 * sums[i] += Σ of row i: lane l adds l, l+8, … in one vector and l+4, l+12, … in another; then both, (l0 + l2) + (l1 +
 * l3), then the rest.
 */
export function addRowSums(matrix: usize, rows: u32, columns: u32, sums: usize): void {
  const row: usize = columns << 2, wide: usize = (columns & ~7) << 2;
  for (let i: u32 = 0; i < rows; i++, matrix += row, sums += 4) {
    let even = f32x4.splat(0), odd = even, at: usize = 0;
    for (; at < wide; at += 32) {
      even = f32x4.add(even, v128.load(matrix + at));
      odd = f32x4.add(odd, v128.load(matrix + at, 16));
    }
    even = f32x4.add(even, odd);
    const low = f32x4.extract_lane(even, 0) + f32x4.extract_lane(even, 2);
    let sum = low + (f32x4.extract_lane(even, 1) + f32x4.extract_lane(even, 3));
    for (; at < row; at += 4) sum += load<f32>(matrix + at);
    store<f32>(sums, load<f32>(sums) + sum);
  }
}

/** sums[j] += column j, row after row. */
export function addColumnSums(matrix: usize, rows: u32, columns: u32, sums: usize): void {
  const row: usize = columns << 2, wide: usize = (columns & ~3) << 2;
  for (let i: u32 = 0; i < rows; i++, matrix += row) {
    let at: usize = 0;
    for (; at < wide; at += 16) v128.store(sums + at, f32x4.add(v128.load(sums + at), v128.load(matrix + at)));
    for (; at < row; at += 4) store<f32>(sums + at, load<f32>(sums + at) + load<f32>(matrix + at));
  }
}
