// exponential — e^x for four floats, off by less than 2 units in the last place: x = n·ln 2 + r, a polynomial in r,
// times 2^n. Made of plain additions and multiplications, so that every engine, and the reference, gives the same bits.

const X_MIN: f32 = -87.25;
const X_MAX: f32 = 88.5;
const LOG2_E: f32 = 1.4426950408889634;
/** ln 2 in two parts; the first has so few bits that n times it is exact. */
const LN2_HIGH: f32 = 0.693359375;
const LN2_LOW: f32 = -0.00021219444005469057;

/** Below X_MIN and above X_MAX it stays what it is there, so it is never 0 and never infinite. NaN gives NaN. */
@inline export function exponential(x: v128): v128 {
  const held = f32x4.min(f32x4.max(x, f32x4.splat(X_MIN)), f32x4.splat(X_MAX));
  const n = f32x4.nearest(f32x4.mul(held, f32x4.splat(LOG2_E)));
  const r = f32x4.sub(f32x4.sub(held, f32x4.mul(n, f32x4.splat(LN2_HIGH))), f32x4.mul(n, f32x4.splat(LN2_LOW)));
  let sum = f32x4.splat(1.0 / 5040.0);
  sum = next(sum, r, 1.0 / 720.0);
  sum = next(sum, r, 1.0 / 120.0);
  sum = next(sum, r, 1.0 / 24.0);
  sum = next(sum, r, 1.0 / 6.0);
  sum = next(sum, r, 0.5);
  sum = next(sum, r, 1);
  sum = next(sum, r, 1);
  const power = i32x4.shl(i32x4.add(i32x4.trunc_sat_f32x4_s(n), i32x4.splat(127)), 23);
  return f32x4.mul(sum, power);
}

/** The next step of Horner's rule. */
@inline function next(sum: v128, r: v128, coefficient: f32): v128 {
  return f32x4.add(f32x4.mul(sum, r), f32x4.splat(coefficient));
}

@inline export function exponentialOfOne(x: f32): f32 {
  return f32x4.extract_lane(exponential(f32x4.splat(x)), 0);
}
