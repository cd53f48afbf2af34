// The door `weighbridge/jax`: programs of jax-js trained on parameter servers (docs/guides/adapters.md).

export type { GroupOptions, OwnArray } from "../parameter-group.ts";
export type { JaxArray } from "./array-tree.ts";
export { type JaxModule, PsParameters, type PsParametersOptions } from "./ps-parameters.ts";
