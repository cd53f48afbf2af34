// all — every built-in function, families together, in the order in which spec/functions.md has them.

import { CACHED_ROWS, RAW_ROWS } from "./cached-rows.ts";
import { CATALOGUE } from "./catalogue.ts";
import { CHECKPOINTS, RELAY } from "./checkpoints.ts";
import { CLOCKS, GROUPS } from "./clocks.ts";
import { CONTROL } from "./control.ts";
import type { DocumentedFunction, FunctionFamily } from "./documented.ts";
import { EXCHANGES, FRAMES } from "./frames.ts";
import { DATA, PARAMETERS } from "./parameters.ts";
import { PARTS, REPLICATION } from "./replication.ts";
import { ROWS } from "./rows.ts";
import { SCALING } from "./scaling.ts";
import { TABLES } from "./tables.ts";
import { TENSORS } from "./tensors.ts";

export const FAMILIES: readonly FunctionFamily[] = [
  ...[TENSORS, ROWS, CLOCKS, PARAMETERS, CATALOGUE, CACHED_ROWS, TABLES, RAW_ROWS],
  ...[GROUPS, DATA, CHECKPOINTS, RELAY, REPLICATION, PARTS, SCALING, CONTROL, FRAMES, EXCHANGES],
];

export const DOCUMENTED: readonly DocumentedFunction[] = FAMILIES.flatMap(({ functions }) => functions);
