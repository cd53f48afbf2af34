// install-numpy — brings numpy along for the tests of the client in Python, where it may: as root on Debian, by its
// package. Elsewhere those tests are skipped, and `npm test` says so.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { findPython } from "../test/conformance/find-python.ts";

const PACKAGES: readonly string[] = ["python3", "python3-numpy"];
const INSTALL_MS = 300_000;

/** What it has to know of the machine, and may do there. */
export type InstallHost = {
  readonly isRoot: boolean;
  readonly isDebian: boolean;
  hasNumpy(): boolean;
  /** Whether `apt-get ...args` succeeded. */
  aptGet(args: readonly string[]): boolean;
};

/** What is to be told, if anything; never throws. */
export function installNumpy({ isRoot, isDebian, hasNumpy, aptGet }: InstallHost): string | undefined {
  if (hasNumpy() || !isRoot || !isDebian) return undefined;
  const install = ["install", "-y", "--no-install-recommends", ...PACKAGES];
  if (!aptGet(install)) {
    aptGet(["update"]); // a fresh container knows of no package
    if (!aptGet(install)) return `could not install ${PACKAGES.join(" and ")}: tests that need them are skipped`;
  }
  return `installed ${PACKAGES.join(" and ")}`;
}

export const thisHost: InstallHost = {
  isRoot: process.getuid?.() === 0,
  isDebian: existsSync("/etc/debian_version"),
  hasNumpy: () => findPython() !== undefined,
  aptGet: (args) => {
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    return spawnSync("apt-get", ["-qq", ...args], { stdio: "ignore", timeout: INSTALL_MS, env }).status === 0;
  },
};
