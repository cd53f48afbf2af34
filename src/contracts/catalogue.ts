// catalogue — the scheduler's catalogue of parameters: which number stands for a name, and who described it how
// (scheduler/catalogue.ts). JSON both ways, as the control plane; the shapes are in src/wire/catalogue.ts.

import * as catalogue from "../wire/catalogue.ts";
import { type Empty, emptyShape } from "../wire/control.ts";
import { type JsonContract, jsonContract } from "./contract.ts";

/** Makes or opens parameters, all or none. Throws SPEC_MISMATCH with the differences, CATALOGUE_FULL. */
export const catalogueOpen: JsonContract<catalogue.CatalogueOpenRequest, catalogue.CatalogueNumbers> = jsonContract({
  name: "wb/catalogue/open",
  target: "scheduler",
  request: catalogue.catalogueOpenRequestShape,
  response: catalogue.catalogueNumbersShape,
});

/** Gives names their numbers before they are made: for a server that restores a checkpoint. Throws CATALOGUE_FULL. */
export const catalogueReserve: JsonContract<catalogue.CatalogueReserveRequest, catalogue.CatalogueNumbers> = jsonContract({
  name: "wb/catalogue/reserve",
  target: "scheduler",
  request: catalogue.catalogueReserveRequestShape,
  response: catalogue.catalogueNumbersShape,
});

export const catalogueFind: JsonContract<catalogue.CatalogueFindRequest, catalogue.CatalogueFound> = jsonContract({
  name: "wb/catalogue/find",
  target: "scheduler",
  request: catalogue.catalogueFindRequestShape,
  response: catalogue.catalogueFoundShape,
});

/** The name may be described anew from now on; its number stays. */
export const catalogueClear: JsonContract<catalogue.CatalogueClearRequest, Empty> = jsonContract({
  name: "wb/catalogue/clear",
  target: "scheduler",
  request: catalogue.catalogueClearRequestShape,
  response: emptyShape,
});

/** What is made, page by page. Also for programs of the command line, which are no nodes. */
export const catalogueList: JsonContract<catalogue.CatalogueListRequest, catalogue.CataloguePage> = jsonContract({
  name: "wb/catalogue/list",
  target: "scheduler",
  request: catalogue.catalogueListRequestShape,
  response: catalogue.cataloguePageShape,
});

/** A node tells a restarted scheduler what it knows, page by page. */
export const catalogueTell: JsonContract<catalogue.CataloguePage, Empty> = jsonContract({
  name: "wb/catalogue/tell",
  target: "scheduler",
  request: catalogue.cataloguePageShape,
  response: emptyShape,
});
