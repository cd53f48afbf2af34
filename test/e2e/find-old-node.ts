// find-old-node — a Node that is too old for us, to try what people with one are told.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** A Node before 24 on this machine, if there is one. */
export function findOldNode(): string | undefined {
  const folders = ["/usr/bin", "/usr/local/bin", ...(process.env.PATH ?? "").split(delimiter)];
  return folders
    .map((folder) => join(folder, "node"))
    .find(
      (path) => existsSync(path) && Number(execFileSync(path, ["-p", "process.versions.node.split('.')[0]"], { encoding: "utf8" })) < 24,
    );
}
