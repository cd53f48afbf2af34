// setup — makes `npm start` and `npm test` work on a fresh machine: installs what the lock file names when node_modules
// is missing or older. Plain JavaScript that old Node versions run too; the scripts behind it then find Node 24 in
// node_modules/.bin.

import { spawnSync } from "node:child_process";
import { existsSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const stamp = join(root, "node_modules", ".weighbridge-setup");
const lock = join(root, "package-lock.json");

const isCurrent = existsSync(stamp) && statSync(stamp).mtimeMs >= statSync(lock).mtimeMs;
if (!isCurrent) {
  console.error("weighbridge: installing what is needed (once) ...");
  // Not `npm ci`: it removes node_modules first, also while another command of this directory runs from it.
  const npm = spawnSync("npm", ["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: root,
    stdio: ["ignore", "ignore", "inherit"],
    shell: process.platform === "win32",
  });
  if (npm.status !== 0) {
    console.error("weighbridge: npm install failed; see above");
    process.exit(npm.status ?? 1);
  }
  writeFileSync(stamp, "");
}
