// applications — what applications of users' own ask of each other beside pushes and pulls: a number and some bytes,
// and bytes back (ps-lite: SimpleApp). The frame names the application, its customer and the number (head); on every
// node, for every node.

import { FunctionId } from "../wire/function-id.ts";
import { type Contract, contract } from "./contract.ts";

const bytes = { body: "u8[]" } as const;

export const simpleRequest: Contract<typeof bytes, typeof bytes> = contract({
  id: FunctionId.SIMPLE,
  name: "wb/app/request",
  target: "node",
  effect: "update",
  request: bytes,
  response: bytes,
});
