// functions — what the servers of this example do beside pushing and pulling. They are started with --functions
// functions.ts.

import { psFunction } from "weighbridge";

/**
 * The k rows of a table that have the largest norm among those this server holds: found where the rows are, so that
 * none has to travel.
 */
export const largestRows = psFunction({
  name: "largestRows",
  request: { table: "string", count: "u32" },
  response: { keys: "u64[]", norms: "f32[]" },
  reads: true,
  handler: (server, { table, count }) => {
    const found: { key: bigint; norm: number }[] = [];
    for (const { key, values } of server.rowsOf(table)) {
      const norm = Math.hypot(...values);
      found.push({ key, norm });
      if (found.length < 4 * count) continue;
      found.sort((a, b) => b.norm - a.norm).length = count;
    }
    found.sort((a, b) => b.norm - a.norm).length = Math.min(count, found.length);
    return { keys: BigUint64Array.from(found, ({ key }) => key), norms: Float32Array.from(found, ({ norm }) => norm) };
  },
});
