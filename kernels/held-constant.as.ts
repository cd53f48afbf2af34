// held-constant — vector constants that stay in a register for the length of a loop.
//
// The compilers put a constant vector back where it is used, and the engine then builds it anew in every turn, with
// several instructions (fp16 took twice as long). What is loaded from memory is no constant to either of them.

import { ZERO } from "./layout.as";

/** `bits` in all four lanes. To be called before the loop. */
@inline export function held(bits: u32): v128 {
  return i32x4.splat(bits ^ load<u32>(ZERO));
}
