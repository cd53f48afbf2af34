// slots — what the slots of new rows begin with, where that is not zero.

/** Sets `floatCount` floats to `value` in each listed row, `offset` bytes after the address that the list holds. */
export function fillRows(rows: usize, rowCount: u32, offset: u32, floatCount: u32, value: f32): void {
  for (let i: u32 = 0; i < rowCount; i++) {
    const start = <usize>load<u32>(rows + (<usize>i << 2)) + <usize>offset;
    fillFloats(start, floatCount, value);
  }
}

export function fillFloats(target: usize, floatCount: u32, value: f32): void {
  const end = target + (<usize>floatCount << 2), lanes = f32x4.splat(value);
  for (const quads = target + (<usize>(floatCount & ~3) << 2); target < quads; target += 16) v128.store(target, lanes);
  for (; target < end; target += 4) store<f32>(target, value);
}

/** Copies the first `floatCount` floats of each listed row to `offset` bytes after them. */
export function repeatRows(rows: usize, rowCount: u32, offset: u32, floatCount: u32): void {
  for (let i: u32 = 0; i < rowCount; i++) {
    const start = <usize>load<u32>(rows + (<usize>i << 2));
    memory.copy(start + <usize>offset, start, <usize>floatCount << 2);
  }
}
