// multiply-add — the one operation in which the two builds of this module differ: fused (rounded once) where relaxed
// SIMD is on, rounded twice elsewhere. Only matrix products use it; everything else gives the same bits in both builds.

/** x · y + z, lane by lane. */
@inline export function multiplyAdd(x: v128, y: v128, z: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(x, y, z);
  return f32x4.add(f32x4.mul(x, y), z);
}
