// max-pool — the greatest of each size × size square of a plane, and where it was. Squares do not overlap; what is left
// at the right and at the bottom is in none. Of equals the first counts, row by row; a NaN counts only where it is the
// first of its square.

/** `indexes`: the index within its plane of each output's source. */
export function maxPool(input: usize, planes: u32, height: u32, width: u32, size: u32, output: usize, indexes: usize): void {
  const row: usize = width << 2, outHeight = height / size, outWidth = width / size;
  for (let plane: u32 = 0; plane < planes; plane++, input += row * height) {
    for (let y: u32 = 0; y < outHeight; y++) {
      let x: u32 = 0;
      if (size == 2) {
        for (; x + 4 <= outWidth; x += 4, output += 16, indexes += 16) fourOfTwo(input, row, 2 * y * width + 2 * x, width, output, indexes);
      }
      for (; x < outWidth; x++, output += 4, indexes += 4) one(input, width, size, size * (y * width + x), output, indexes);
    }
  }
}

/** Four neighbours at once; `first` is the index of their first corner. */
@inline function fourOfTwo(input: usize, row: usize, first: u32, width: u32, output: usize, indexes: usize): void {
  const top = input + (<usize>first << 2), a = v128.load(top), b = v128.load(top, 16), c = v128.load(top + row), d = v128.load(top + row, 16);
  let best = v128.shuffle<f32>(a, b, 0, 2, 4, 6), index = i32x4.add(i32x4.splat(first), i32x4(0, 2, 4, 6));
  const start = index;
  let other = v128.shuffle<f32>(a, b, 1, 3, 5, 7), isGreater = f32x4.gt(other, best);
  best = v128.bitselect(other, best, isGreater);
  index = v128.bitselect(i32x4.add(start, i32x4.splat(1)), index, isGreater);
  other = v128.shuffle<f32>(c, d, 0, 2, 4, 6);
  isGreater = f32x4.gt(other, best);
  best = v128.bitselect(other, best, isGreater);
  index = v128.bitselect(i32x4.add(start, i32x4.splat(width)), index, isGreater);
  other = v128.shuffle<f32>(c, d, 1, 3, 5, 7);
  isGreater = f32x4.gt(other, best);
  v128.store(output, v128.bitselect(other, best, isGreater));
  v128.store(indexes, v128.bitselect(i32x4.add(start, i32x4.splat(width + 1)), index, isGreater));
}

function one(input: usize, width: u32, size: u32, first: u32, output: usize, indexes: usize): void {
  let best = load<f32>(input + (<usize>first << 2)), index = first;
  for (let dy: u32 = 0; dy < size; dy++) {
    for (let dx: u32 = 0; dx < size; dx++) {
      const at = first + dy * width + dx, value = load<f32>(input + (<usize>at << 2));
      if (value > best) {
        best = value;
        index = at;
      }
    }
  }
  store<f32>(output, best);
  store<u32>(indexes, index);
}

/** Sets the gradient of the input: each output's goes to its source, the rest is 0. */
export function maxPoolGradient(gradient: usize, indexes: usize, planes: u32, outFloats: u32, inFloats: u32, target: usize): void {
  memory.fill(target, 0, <usize>planes * inFloats << 2);
  for (let plane: u32 = 0; plane < planes; plane++, target += <usize>inFloats << 2) {
    for (const end = indexes + (<usize>outFloats << 2); indexes < end; indexes += 4, gradient += 4) {
      store<f32>(target + (<usize>load<u32>(indexes) << 2), load<f32>(gradient));
    }
  }
}
