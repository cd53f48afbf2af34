// checkpoints — the functions of a server's checkpoint service (contracts/checkpoints.ts), for workers and, relayed by
// the scheduler, for callers that are not nodes (relayed-calls.ts).
//
// Invariants:
//   CheckpointHandlers.K1. Each caller is an owner of its own. One that is gone owns nothing: the roster reports
//       workers, the scheduler other callers.

import * as checkpoints from "../../contracts/checkpoints.ts";
import type { Contract } from "../../contracts/contract.ts";
import type { Fields, FieldValues } from "../../wire/function-schema.ts";
import { type CheckpointService, ownerName } from "../checkpoint/checkpoint-service.ts";
import { type ServedFunction, serve } from "../server-context.ts";

/** A function of the service, for every caller. */
export type CheckpointOperation<Q extends Fields = Fields, R extends Fields = Fields> = {
  readonly fn: Contract<Q, R>;
  run(service: CheckpointService, request: FieldValues<Q>, owner: string): FieldValues<R> | Promise<FieldValues<R>>;
};

function operation<Q extends Fields, R extends Fields>(fn: Contract<Q, R>, run: CheckpointOperation<Q, R>["run"]): CheckpointOperation {
  return { fn, run } as unknown as CheckpointOperation;
}

const { survey, cut, begin, write, commit, abandon } = checkpoints.checkpointSave;
export const CHECKPOINT_OPERATIONS: readonly CheckpointOperation[] = [
  operation(survey, (service, _, owner) => service.survey(owner)),
  operation(cut, (service, request, owner) => service.cut(request, owner)),
  operation(begin, (service, request, owner) => service.directory.begin(request, owner)),
  operation(write, async (service, request, owner) => (await service.write(request, owner)) as unknown as checkpoints.Report),
  operation(commit, (service, request, owner) => service.directory.commit(request, owner)),
  operation(abandon, (service, request, owner) => service.abandon(request, owner)),
  operation(checkpoints.checkpointLoad, (service, { step }, owner) => service.loads.loadStep(step, owner)),
  operation(checkpoints.checkpointActivate, (service, { step }) => service.loads.activate(step)),
  operation(checkpoints.checkpointDiscard, (service, _, owner) => service.loads.discard(owner)),
  operation(checkpoints.parameterStage, (service, request, owner) => service.parameterLoads.stage(request, owner)),
  operation(checkpoints.parameterReplace, (service, { step }, owner) => service.parameterLoads.replace(step, owner)),
  operation(checkpoints.parameterUnstage, (service, _, owner) => service.parameterLoads.unstage(owner)),
];

export const CHECKPOINT_HANDLERS: readonly ServedFunction[] = [
  ...CHECKPOINT_OPERATIONS.map(({ fn, run }) =>
    serve(fn, { handler: ({ checkpoints: service, holder }, request) => run(service, request, ownerName(holder)) }),
  ),
];
