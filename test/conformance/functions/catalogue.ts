// catalogue — what spec/functions.md says of src/contracts/catalogue.ts.

import * as catalogue from "../../../src/contracts/catalogue.ts";
import { SPEC } from "./common-words.ts";
import { documentedJson, type FunctionFamily } from "./documented.ts";

const ENTRIES = "a list of `{name, number, edition, spec?}`; the spec is left out while nobody has made the edition";
const numbersText = "in the order of the request: a list of `{number, edition, isNew}`; `isNew`: this request has made it";
const entry = { name: "w", number: 1, edition: 1, spec: SPEC };
const numbers = { parameters: [{ number: 1, edition: 1, isNew: true }] };

export const CATALOGUE: FunctionFamily = {
  title: "The catalogue of parameters",
  about:
    "Which number stands for which name (protocol.md, C35 to C40). The request and the response are one JSON object each, and nothing else.",
  functions: [
    documentedJson(catalogue.catalogueOpen, {
      about: "Makes parameters, or opens those that are described alike: all or none.",
      request: { specs: "a list of specs, each as its JSON text (protocol.md, §10e), of at most 65,536 characters" },
      response: { parameters: numbersText },
      errors: ["BAD_REQUEST", "BAD_ARGUMENT", "SPEC_MISMATCH", "CATALOGUE_FULL", "NO_ROUTE"],
      example: { request: { specs: [entry.spec] }, response: numbers },
    }),
    documentedJson(catalogue.catalogueReserve, {
      about: "Gives names their numbers before they are made.",
      request: { names: "a list of names" },
      response: { parameters: numbersText },
      errors: ["BAD_REQUEST", "SPEC_MISMATCH", "CATALOGUE_FULL", "NO_ROUTE"],
      example: { request: { names: ["w"] }, response: numbers },
    }),
    documentedJson(catalogue.catalogueFind, {
      about: "What a name stands for now.",
      request: { name: "of the parameter" },
      response: { entry: "`{name, number, edition, spec?}`; left out for a name that was never heard of" },
      errors: ["NO_ROUTE"],
      example: { request: { name: "w" }, response: { entry } },
    }),
    documentedJson(catalogue.catalogueClear, {
      about: "Ends an edition of a name; without effect on a later one.",
      request: { name: "of the parameter", edition: "that is cleared" },
      response: {},
      errors: ["NO_ROUTE"],
      example: { request: { name: "w", edition: 1 }, response: {} },
    }),
    documentedJson(catalogue.catalogueList, {
      about: "What is made, page by page. Programs of the command line, which are no nodes, may call it, too.",
      request: { after: "numbers above this one; 0: from the beginning" },
      response: { entries: ENTRIES, isLast: "whether there are no others" },
      errors: ["NO_ROUTE"],
      example: { request: { after: 0 }, response: { entries: [entry], isLast: true } },
    }),
    documentedJson(catalogue.catalogueTell, {
      about: "A node tells a restarted scheduler what it knows, page by page.",
      request: { entries: ENTRIES, isLast: "whether this is the last page" },
      response: {},
      errors: ["CATALOGUE_FULL", "NO_ROUTE"],
      example: { request: { entries: [entry], isLast: true }, response: {} },
    }),
  ],
};
