// part-page — what the state of one part of a server's parameters consists of, in pages that can be loaded in any
// order, and again: rows and blocks with all that their optimizers keep, and what workers have pushed to them in rounds
// that are still open, or have pulled of them last; and data beside the parameters. Pages are copies, not in the arena.

import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import type { BlockImage } from "../../store/block-span.ts";
import type { PulledImages } from "../../store/pulled-rows.ts";
import type { SumImages } from "../../store/sums/sum-requests.ts";
import type { RowImages } from "../../store/table-requests.ts";
import type { GatheredImage } from "./gathered-rows.ts";
import type { GatheredBlockImage } from "./tensor-requests.ts";

/** Whose push, and of which clock. */
export type GatheredBy = { readonly holder: WorkerIncarnation; readonly clock: number };

export type GatheredRowsPage = GatheredBy & { readonly kind: "gatheredRows"; readonly part: number; readonly image: GatheredImage };
export type TablePage =
  | { readonly kind: "rows"; readonly images: RowImages }
  | { readonly kind: "pulledRows"; readonly pulled: PulledImages }
  | GatheredRowsPage;

export type GatheredBlockPage = GatheredBy & { readonly kind: "gatheredBlock"; readonly block: number; readonly image: GatheredBlockImage };
export type TensorPage = { readonly kind: "block"; readonly image: BlockImage } | GatheredBlockPage;

/** A page of one parameter, by its name. */
export type ParameterPage = { readonly parameter: string } & (TablePage | TensorPage);
/** Data beside the parameters. */
export type DataPage = { readonly kind: "data"; readonly images: SumImages };
export type PartPage = ParameterPage | DataPage;
