// matrix-product — dense products of row-major matrices, all of f32. Two shapes of one idea, eight sums in registers:
//
//   multiply             C[m × n] (+)= A · B      4 × 8 tiles: one number of each of 4 rows times 8 neighbours of a row
//                                                 of B
//   multiplyTransposed   C[m × n] (+)= A · Bᵀ     2 × 4 tiles of dot products, 4 lanes each, as rows of A and of B lie
//                                                 along the depth
//
// Tiles over the edge are computed like all others, from rows that are repeated or columns that are zeros, and stored
// in part: a narrower tile would have too few sums to keep the multipliers busy, and so be no faster.
//
// Order of additions, which the reference repeats:
//   multiply             Σ over the depth, ascending, from 0; then + C.
//   multiplyTransposed   lane l adds the products l, l+4, …; the sum is (l0 + l2) + (l1 + l3), then the depth's last 0
//                        to 3; then + C.

import { multiplyAdd } from "./multiply-add.as";

/** Flags of both products. */
const ACCUMULATE: u32 = 1;
/** `multiply` alone: A is stored as [k × m]. */
const A_TRANSPOSED: u32 = 2;

const TILE_ROWS: u32 = 4;
const TILE_COLUMNS: u32 = 8;
const TILE_BYTES: usize = 128;
const PANEL_ROW: usize = 32;
/**
 * From so many rows on it pays to copy 8 columns of B side by side: rows of a power of two bytes apart would evict each
 * other.
 */
const PACK_ROWS_MIN: u32 = 16;

/** `scratch` has TILE_BYTES + 32 · k bytes. */
export function multiply(m: u32, n: u32, k: u32, a: usize, b: usize, c: usize, flags: u32, scratch: usize): void {
  multiplyRows(0, m, m, n, k, a, b, c, flags, scratch);
}

/** Rows `from` to `to` of C alone. */
export function multiplyRows(from: u32, to: u32, m: u32, n: u32, k: u32, a: usize, b: usize, c: usize, flags: u32, scratch: usize): void {
  const isTransposed = (flags & A_TRANSPOSED) != 0;
  const aRow: usize = isTransposed ? 4 : <usize>k << 2, aStep: usize = isTransposed ? <usize>m << 2 : 4, row: usize = n << 2;
  for (let j: u32 = 0; j < n; j += TILE_COLUMNS) {
    const width = min(TILE_COLUMNS, n - j);
    let columns = b + (<usize>j << 2), step = row;
    if (width < TILE_COLUMNS || to - from >= PACK_ROWS_MIN) {
      pack(columns, row, k, width, scratch + TILE_BYTES);
      columns = scratch + TILE_BYTES;
      step = PANEL_ROW;
    }
    for (let i = from; i < to; i += TILE_ROWS) {
      const height = min(TILE_ROWS, to - i), rows = a + <usize>i * aRow, target = c + <usize>i * row + (<usize>j << 2);
      if (height == TILE_ROWS && width == TILE_COLUMNS) {
        tile(rows, rows + aRow, rows + 2 * aRow, rows + 3 * aRow, aStep, columns, step, k, target, row, (flags & ACCUMULATE) != 0);
      } else {
        const second = height > 1 ? rows + aRow : rows, third = height > 2 ? second + aRow : second;
        tile(rows, second, third, height > 3 ? third + aRow : third, aStep, columns, step, k, scratch, PANEL_ROW, false);
        storePart(scratch, height, width, target, row, (flags & ACCUMULATE) != 0);
      }
    }
  }
}

/** C[4 × 8] from four rows of A, each `aStep` bytes from number to number, and 8 columns of B. */
@inline function tile(
  a0: usize, a1: usize, a2: usize, a3: usize, aStep: usize, b: usize, bStep: usize, k: u32, c: usize, row: usize, accumulate: bool,
): void {
  let c00 = f32x4.splat(0), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00, c30 = c00, c31 = c00;
  for (let depth = k; depth != 0; depth--) {
    const left = v128.load(b), right = v128.load(b, 16);
    let x = v128.load_splat<f32>(a0);
    c00 = multiplyAdd(x, left, c00);
    c01 = multiplyAdd(x, right, c01);
    x = v128.load_splat<f32>(a1);
    c10 = multiplyAdd(x, left, c10);
    c11 = multiplyAdd(x, right, c11);
    x = v128.load_splat<f32>(a2);
    c20 = multiplyAdd(x, left, c20);
    c21 = multiplyAdd(x, right, c21);
    x = v128.load_splat<f32>(a3);
    c30 = multiplyAdd(x, left, c30);
    c31 = multiplyAdd(x, right, c31);
    a0 += aStep;
    a1 += aStep;
    a2 += aStep;
    a3 += aStep;
    b += bStep;
  }
  storeRow(c, c00, c01, accumulate);
  storeRow(c + row, c10, c11, accumulate);
  storeRow(c + 2 * row, c20, c21, accumulate);
  storeRow(c + 3 * row, c30, c31, accumulate);
}

@inline function storeRow(target: usize, left: v128, right: v128, accumulate: bool): void {
  if (accumulate) {
    left = f32x4.add(v128.load(target), left);
    right = f32x4.add(v128.load(target, 16), right);
  }
  v128.store(target, left);
  v128.store(target, right, 16);
}

function storePart(tile: usize, height: u32, width: u32, target: usize, row: usize, accumulate: bool): void {
  for (let i: u32 = 0; i < height; i++, tile += PANEL_ROW, target += row) {
    for (let at: usize = 0; at < <usize>width << 2; at += 4) {
      const value = load<f32>(tile + at);
      store<f32>(target + at, accumulate ? load<f32>(target + at) + value : value);
    }
  }
}

/** Up to 8 columns of B side by side, zeros where there are fewer. */
function pack(b: usize, row: usize, k: u32, width: u32, panel: usize): void {
  const end = panel + <usize>k * PANEL_ROW;
  if (width == TILE_COLUMNS) {
    for (; panel < end; panel += PANEL_ROW, b += row) {
      v128.store(panel, v128.load(b));
      v128.store(panel, v128.load(b, 16), 16);
    }
    return;
  }
  for (; panel < end; panel += PANEL_ROW, b += row) {
    v128.store(panel, f32x4.splat(0));
    v128.store(panel, f32x4.splat(0), 16);
    for (let at: usize = 0; at < <usize>width << 2; at += 4) store<f32>(panel + at, load<f32>(b + at));
  }
}

/**
 * The larger of A and B is read once: where it does not fit a core's own cache, cores that share the next one hold each
 * other up.
 */
export function multiplyTransposed(m: u32, n: u32, k: u32, a: usize, b: usize, c: usize, flags: u32): void {
  const accumulate = (flags & ACCUMULATE) != 0;
  if (m >= n) {
    for (let i: u32 = 0; i < m; i += 2) for (let j: u32 = 0; j < n; j += 4) dots(i, j, m, n, k, a, b, c, accumulate);
  } else {
    for (let j: u32 = 0; j < n; j += 4) for (let i: u32 = 0; i < m; i += 2) dots(i, j, m, n, k, a, b, c, accumulate);
  }
}

/** Rows i and i + 1 of A times rows j to j + 3 of B, as far as they are there. */
@inline function dots(i: u32, j: u32, m: u32, n: u32, k: u32, a: usize, b: usize, c: usize, accumulate: bool): void {
  const row: usize = k << 2, wide: usize = (k & ~3) << 2;
  const a0 = a + <usize>i * row, a1 = i + 1 < m ? a0 + row : a0;
  const width = min<u32>(4, n - j), b0 = b + <usize>j * row;
  const b1 = width > 1 ? b0 + row : b0, b2 = width > 2 ? b1 + row : b1, b3 = width > 3 ? b2 + row : b2;
  let c00 = f32x4.splat(0), c01 = c00, c02 = c00, c03 = c00, c10 = c00, c11 = c00, c12 = c00, c13 = c00;
  for (let at: usize = 0; at < wide; at += 16) {
    const x = v128.load(a0 + at), y = v128.load(a1 + at);
    let z = v128.load(b0 + at);
    c00 = multiplyAdd(x, z, c00);
    c10 = multiplyAdd(y, z, c10);
    z = v128.load(b1 + at);
    c01 = multiplyAdd(x, z, c01);
    c11 = multiplyAdd(y, z, c11);
    z = v128.load(b2 + at);
    c02 = multiplyAdd(x, z, c02);
    c12 = multiplyAdd(y, z, c12);
    z = v128.load(b3 + at);
    c03 = multiplyAdd(x, z, c03);
    c13 = multiplyAdd(y, z, c13);
  }
  let first = fourSums(c00, c01, c02, c03), second = fourSums(c10, c11, c12, c13);
  for (let at = wide; at < row; at += 4) {
    const z = f32x4(load<f32>(b0 + at), load<f32>(b1 + at), load<f32>(b2 + at), load<f32>(b3 + at));
    first = multiplyAdd(v128.load_splat<f32>(a0 + at), z, first);
    second = multiplyAdd(v128.load_splat<f32>(a1 + at), z, second);
  }
  const target = c + ((<usize>i * n + j) << 2);
  storeDots(target, first, width, accumulate);
  if (i + 1 < m) storeDots(target + (<usize>n << 2), second, width, accumulate);
}

/** The sums of the lanes of each of four vectors. */
@inline function fourSums(x: v128, y: v128, z: v128, w: v128): v128 {
  const xy = f32x4.add(v128.shuffle<f32>(x, y, 0, 4, 1, 5), v128.shuffle<f32>(x, y, 2, 6, 3, 7));
  const zw = f32x4.add(v128.shuffle<f32>(z, w, 0, 4, 1, 5), v128.shuffle<f32>(z, w, 2, 6, 3, 7));
  return f32x4.add(v128.shuffle<f32>(xy, zw, 0, 1, 4, 5), v128.shuffle<f32>(xy, zw, 2, 3, 6, 7));
}

@inline function storeDots(target: usize, sums: v128, width: u32, accumulate: bool): void {
  if (width == 4) {
    v128.store(target, accumulate ? f32x4.add(v128.load(target), sums) : sums);
    return;
  }
  storeDot(target, f32x4.extract_lane(sums, 0), accumulate);
  if (width > 1) storeDot(target + 4, f32x4.extract_lane(sums, 1), accumulate);
  if (width > 2) storeDot(target + 8, f32x4.extract_lane(sums, 2), accumulate);
}

@inline function storeDot(target: usize, sum: f32, accumulate: bool): void {
  store<f32>(target, accumulate ? load<f32>(target) + sum : sum);
}
