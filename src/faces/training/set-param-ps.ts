// set-param-ps — marks the parameters that live on servers (MindSpore: Cell.set_param_ps, Parameter.set_param_ps). A
// Model reads the marks when it begins to train with a session; a model that is trained alone ignores them.

import { badArgument } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import type { Parameter, ServerTarget } from "../../nn/parameter.ts";
import { EmbeddingLookup } from "./embedding-lookup.ts";
import { inOurNames } from "./mindspore-names.ts";
import type { Network, Stage } from "./network.ts";

export type SetParamPsOptions = {
  /** The servers create the first values; of an EmbeddingLookup only rows of batches come here. Defaults to false. */
  readonly initInServer?: boolean;
  /** The same, as MindSpore spells it. */
  readonly init_in_server?: boolean;
};

/** For all parameters of a network, stage or layer, or one parameter. Throws BAD_ARGUMENT. */
export function setParamPs(target: Pick<Network, "stages"> | Stage | Parameter, options: SetParamPsOptions = {}): void {
  const named = inOurNames(options, "the options of setParamPs");
  checkOptions(named, ["initInServer"], "the options of setParamPs");
  const { initInServer = false } = named as SetParamPsOptions;
  if (typeof initInServer !== "boolean") throw badArgument(`initInServer is true or false, not ${String(initInServer)}`);
  mark(target, { initInServer });
}

function mark(target: Pick<Network, "stages"> | Stage | Parameter, serverTarget: ServerTarget): void {
  if (typeof target !== "object" || target === null) {
    throw badArgument(`setParamPs takes a network, a layer or a parameter, not ${String(target)}`);
  }
  if ("stages" in target) {
    for (const stage of target.stages) mark(stage, serverTarget);
  } else if ("parameters" in target) {
    for (const parameter of target.parameters) mark(parameter, serverTarget);
    const { lookup } = target;
    if (lookup !== undefined && lookup !== target) mark(lookup, serverTarget);
    if (target instanceof EmbeddingLookup && target.options.sparse) target.serverTarget = serverTarget;
  } else if ("gradient" in target) target.serverTarget = serverTarget;
  else throw badArgument("setParamPs takes a network, a layer or a parameter");
}
