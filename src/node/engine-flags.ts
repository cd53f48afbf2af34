// engine-flags — V8 flags that make our processes faster: those that our commands start, and the commands themselves.
// The library sets no flag: it would affect all code of a user's process.
//
//   all roles   the path of a small request is twenty small functions; V8 stops inlining after about 900 bytes of
//               bytecode, so that a third of the time went into calls between them (docs/decisions/0016)
//   server      two neighbouring vectors of a kernel are compiled as one of twice the width (AVX2): roots and
//               divisions, which bound AdaGrad and Adam, take half the time (docs/decisions/0021). Elements are rounded
//               as before.
//
// Invariants:
//   EngineFlags.F1. A flag that Node's command line sets stays.

import { setFlagsFromString } from "node:v8";
import type { Role } from "./config/node-config.ts";

/** Bytes of bytecode: of one function that may be inlined, and of everything inlined into one function. */
const INLINING = ["--max-inlined-bytecode-size=1000", "--max-inlined-bytecode-size-cumulative=4000"];
const WIDE_VECTORS = ["--experimental-wasm-revectorize"];

/** For the command line of a process of this role; `execArgv` is what it has already (EngineFlags.F1). */
export function engineFlags(role: Role, execArgv: readonly string[] = []): readonly string[] {
  const isSet = (pattern: RegExp): boolean => execArgv.some((arg) => pattern.test(arg));
  return [
    ...(isSet(/^--max[-_]inlined[-_]bytecode[-_]size/) ? [] : INLINING),
    ...(role !== "server" || isSet(/^--(no[-_]?)?experimental[-_]wasm[-_]revectorize/) ? [] : WIDE_VECTORS),
  ];
}

/** For a command that is a node of this role: affects all code of this process that is compiled from now on. */
export function setEngineFlags(role: Role): void {
  for (const flag of engineFlags(role, process.execArgv)) setFlagsFromString(flag);
}
