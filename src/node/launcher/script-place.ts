// script-place — where in a user's script an error of ours came from, for the line that stands for its stack.

import { isAbsolute, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";

/** `at inner (PLACE)`, `at PLACE` or `at async PLACE`, where PLACE is a file with line and column. */
const FRAME = /^ +at (?:.*\((?<inCall>.+:\d+:\d+)\)|(?:async )?(?<alone>[^(]+:\d+:\d+))$/gm;
/** Below the package: its sources, and what is built of them. */
const OWN = ["src", "lib"];

type Where = {
  /** The folder of the package. */
  readonly root: string;
  /** Paths below it are shown as they would be written there. */
  readonly cwd: string;
};

/** `train.ts:6:11`, the first frame outside packages and Node; undefined if there is none. */
export function scriptPlace(stack: string, { root, cwd }: Where): string | undefined {
  for (const { groups } of stack.matchAll(FRAME)) {
    const [, file = "", position] = /^(.+?)(:\d+:\d+)$/.exec(groups?.inCall ?? groups?.alone ?? "") ?? [];
    const path = file.startsWith("file:") ? fileURLToPath(file) : file;
    const isForeign = !isAbsolute(path) || path.includes(`${sep}node_modules${sep}`);
    if (isForeign || OWN.some((folder) => path.startsWith(join(root, folder, sep)))) continue;
    const below = relative(cwd, path);
    return `${below.startsWith("..") || isAbsolute(below) ? path : below}${position}`;
  }
  return undefined;
}
