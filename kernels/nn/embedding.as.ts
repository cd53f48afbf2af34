// embedding — rows of a table, found by i32 ids. An id that is negative or past the end stands for a row of zeros that
// nothing is added to.

/** The index of the first id that names no row, -1 when all do. */
export function findOutOfRange(ids: usize, idCount: u32, rowCount: u32): i32 {
  for (let i: u32 = 0; i < idCount; i++) {
    if (load<u32>(ids + (<usize>i << 2)) >= rowCount) return i;
  }
  return -1;
}

/** output[bag] = Σ of the rows of the bag's `bagSize` ids, in their order. */
export function sumOfRows(table: usize, rowCount: u32, width: u32, ids: usize, bagCount: u32, bagSize: u32, output: usize): void {
  const row: usize = width << 2;
  memory.fill(output, 0, row * bagCount);
  for (let bag: u32 = 0; bag < bagCount; bag++, output += row) {
    for (let i: u32 = 0; i < bagSize; i++, ids += 4) {
      const id = load<u32>(ids);
      if (id < rowCount) addFloats(table + row * id, width, output);
    }
  }
}

/** The transpose: every row gets the gradients of the bags that it is in, in their order. */
export function addToRows(gradient: usize, width: u32, ids: usize, bagCount: u32, bagSize: u32, rowCount: u32, table: usize): void {
  const row: usize = width << 2;
  for (let bag: u32 = 0; bag < bagCount; bag++, gradient += row) {
    for (let i: u32 = 0; i < bagSize; i++, ids += 4) {
      const id = load<u32>(ids);
      if (id < rowCount) addFloats(gradient, width, table + row * id);
    }
  }
}

@inline function addFloats(source: usize, floatCount: u32, target: usize): void {
  const end: usize = floatCount << 2, wide: usize = (floatCount & ~3) << 2;
  let at: usize = 0;
  for (; at < wide; at += 16) v128.store(target + at, f32x4.add(v128.load(target + at), v128.load(source + at)));
  for (; at < end; at += 4) store<f32>(target + at, load<f32>(target + at) + load<f32>(source + at));
}
