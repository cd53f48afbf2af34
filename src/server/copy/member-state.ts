// member-state — what is a server's and not a part's, for one that comes into the placement: clocks of workers and
// counts of pushes, the catalogue, and of each parameter its rate, its phases and its claim. All servers of a placement
// are alike in it when it changes (PlacementChanges.C1, C4).

import type { CatalogueEntry } from "../../wire/catalogue.ts";
import type { ParameterImage } from "../parameters/hosted-parameter.ts";
import type { Parameters } from "../parameters/parameters.ts";

export type MemberImage = {
  readonly pacer: ReturnType<Parameters["pacer"]["save"]>;
  readonly catalogue: readonly CatalogueEntry[];
  readonly parameters: readonly ParameterImage[];
};

export function saveMember(parameters: Parameters): MemberImage {
  return {
    pacer: { ...parameters.pacer.save(), lost: [] }, // the servers that were there tell a worker that lost something
    catalogue: [...parameters.entries()],
    parameters: parameters.all.map((parameter) => parameter.save()),
  };
}

/**
 * Replaces what was here. Handles of workers go on with what comes, as after a restore. Which updates of theirs this
 * server has taken is its own, of the time when it was in a placement before (TakenUpdates.U1). Throws ARENA_FULL.
 */
export function loadMember(parameters: Parameters, { pacer, catalogue, parameters: images }: MemberImage): void {
  const taken = new Map(parameters.all.map((parameter) => [parameter.number, parameter.save().taken]));
  parameters.clearAll();
  parameters.pacer.load(pacer);
  parameters.adopt(catalogue);
  for (const image of images) parameters.get(image.number).load({ ...image, isRestored: true, taken: taken.get(image.number) ?? [] });
}
