// ascending-index — the index of a number in an ascending list that contains it.

/** The index of `value` among the first `count` elements, which ascend and contain it. */
export function ascendingIndex(ascending: Int32Array | Float64Array, count: number, value: number): number {
  let low = 0;
  let high = count - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
