// inlining — lets the engine compile the path of a small request as one piece (docs/decisions/0016).
//
// From the bytes of a frame to the kernel, or to the user's callback and the next request, it is some twenty small functions in as many
// files. The engine stops inlining after about 900 bytes of bytecode, so that a third of the time went into calls between them.

import { setFlagsFromString } from "node:v8";

/** Bytes of bytecode: of one function that may be inlined, and of all that one function may take in. */
const INLINING = ["--max-inlined-bytecode-size=1000", "--max-inlined-bytecode-size-cumulative=4000"];

/** Raises the limits for all code of this process that is compiled from now on. Limits that the command line sets stay as they are. */
export function inlineDeeply(): void {
  for (const flag of inliningFlags(process.execArgv)) setFlagsFromString(flag);
}

/** What is to be set, where Node itself was started with these arguments. */
export function inliningFlags(execArgv: readonly string[]): readonly string[] {
  const isChosen = execArgv.some((arg) => /^--max[-_]inlined[-_]bytecode[-_]size/.test(arg));
  return isChosen ? [] : INLINING;
}
