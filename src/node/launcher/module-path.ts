// module-path — where one of our own modules lies: TypeScript in the repository, JavaScript in the published package.

import { fileURLToPath } from "node:url";

/** The path of `name` (without its extension, relative to the asking module) for `node` to run. */
export function modulePath(importMetaUrl: string, name: string): string {
  const extension = importMetaUrl.endsWith(".ts") ? ".ts" : ".js";
  return fileURLToPath(new URL(`${name}${extension}`, importMetaUrl));
}
