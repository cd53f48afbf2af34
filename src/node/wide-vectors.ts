// wide-vectors — lets the engine compile two neighbouring vectors of a kernel as one of twice the width, where the processor has such (AVX2):
// docs/decisions/0021. Roots and divisions, which bound AdaGrad and Adam, then take half the time.
//
// Not a change of the arithmetic: every element is rounded as before. What the kernels do about it is to load both vectors of a pair before
// they store one (kernels/optimizers/lanes.as.ts).

import { setFlagsFromString } from "node:v8";

const WIDE_VECTORS = "--experimental-wasm-revectorize";

/** For all WebAssembly of this process that is compiled from now on, unless the command line says otherwise. */
export function useWideVectors(): void {
  for (const flag of wideVectorFlags(process.execArgv)) setFlagsFromString(flag);
}

/** What is to be set, where Node itself was started with these arguments. */
export function wideVectorFlags(execArgv: readonly string[]): readonly string[] {
  const isChosen = execArgv.some((arg) => /^--(no[-_]?)?experimental[-_]wasm[-_]revectorize/.test(arg));
  return isChosen ? [] : [WIDE_VECTORS];
}
