// doors — the doors of the package: what users import, such as "." and "./kv", and the source of each.

import packageJson from "weighbridge/package.json" with { type: "json" };

export const DOORS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(packageJson.exports).flatMap(([door, target]) =>
    typeof target === "string" ? [] : [[door, target["@weighbridge/source"]]],
  ),
);
