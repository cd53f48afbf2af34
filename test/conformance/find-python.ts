// find-python — a Python with numpy on this machine, for the client that is written in it. scripts/install-numpy.ts
// installs one where it may.

import { spawnSync } from "node:child_process";

/** What is on the path, and what a distribution's packages are for. */
export const PYTHONS: readonly string[] = ["python3", "/usr/bin/python3"];

export function hasNumpy(python: string): boolean {
  return spawnSync(python, ["-c", "import numpy"], { stdio: "ignore", timeout: 60_000 }).status === 0;
}

/** Undefined: there is none. */
export function findPython(): string | undefined {
  return PYTHONS.find(hasNumpy);
}
