// gradient-norm — clipping by norm: the worker computes the scale of a gradient before it pushes it, since a server
// sees only its own part.

/** The Euclidean norm, summed in f64: exact to about 1e-15 × the number of elements, and it cannot overflow. */
export function gradientNorm(gradient: Float32Array): number {
  return Math.sqrt(squaredNorm(gradient));
}

/** The sum of squares; those of several arrays add up to that of them all. */
export function squaredNorm(gradient: Float32Array): number {
  const { length } = gradient;
  const quads = length - (length % 4);
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  for (let i = 0; i < quads; i += 4) {
    a += gradient[i]! * gradient[i]!;
    b += gradient[i + 1]! * gradient[i + 1]!;
    c += gradient[i + 2]! * gradient[i + 2]!;
    d += gradient[i + 3]! * gradient[i + 3]!;
  }
  for (let i = quads; i < length; i++) a += gradient[i]! * gradient[i]!;
  return a + c + (b + d);
}

/** Keeps a norm a hair below the limit, and the quotient finite for a norm of 0: PyTorch's number. */
const NORM_MARGIN = 1e-6;

/** The factor that brings a gradient of this norm down to `clipNorm`; 1 for null. */
export function clipScale(norm: number, clipNorm: number | null): number {
  return clipNorm === null ? 1 : Math.min(1, clipNorm / (norm + NORM_MARGIN));
}
