// pack — makes `npm pack` at the root pack the package that is published. npm alone would take the root's manifest as
// it lies there, with our scripts and tools. So prepack builds the package in dist/ and packs that, and postpack puts
// its tarball over the one that npm has written meanwhile. No file of the repository changes, and none has to be
// restored when this is interrupted. prepack runs it by a script of its own: the shell of prepack remembers the Node
// that it found before setup.mjs installed ours.

import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";

const PACKED = ".weighbridge/packed";
const { npm_lifecycle_event, npm_execpath, npm_config_json, npm_config_dry_run, npm_config_pack_destination = "." } = process.env;
/** Where npm was called, and packs to. Scripts run in the root. */
const { INIT_CWD = "." } = process.env;

if (npm_lifecycle_event !== "postpack") await pack();
else for (const tarball of readdirSync(PACKED)) finish(tarball);

async function pack() {
  if (npm_config_json === "true") {
    console.error("weighbridge: npm pack --json would describe the tarball that is replaced: npm run build && npm pack ./dist --json");
    process.exit(1);
  }
  await import("./build.mjs");
  rmSync(PACKED, { recursive: true, force: true });
  mkdirSync(PACKED, { recursive: true });
  const args = [npm_execpath, "pack", "./dist", "--pack-destination", PACKED, "--loglevel=warn"];
  const { status } = spawnSync(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
  if (status !== 0) process.exit(status ?? 1);
}

function finish(tarball) {
  const path = resolve(INIT_CWD, npm_config_pack_destination, tarball);
  const size = (statSync(join(PACKED, tarball)).size / 1e6).toFixed(1);
  if (npm_config_dry_run !== "true") copyFileSync(join(PACKED, tarball), path);
  console.error(`weighbridge: packed ${path}, ${size} MB`);
  rmSync(PACKED, { recursive: true });
}
