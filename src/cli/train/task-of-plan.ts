// task-of-plan — opens the task of a plan, by its name.

import { setParamPs } from "../../faces/training/network.ts";
import { openFlightsTask } from "./flights-task.ts";
import { openLenetTask } from "./lenet-task.ts";
import { openRatingsTask } from "./ratings-task.ts";
import type { Task } from "./task.ts";
import type { TrainPlan } from "./train-plan.ts";

/** With every weight on the servers, if it is trained with a session. Throws what reading the data throws. */
export async function openTask(plan: TrainPlan): Promise<Task> {
  const task = await open(plan);
  setParamPs(task.network, { initInServer: true });
  return task;
}

async function open(plan: TrainPlan): Promise<Task> {
  const { task } = plan;
  switch (task) {
    case "lenet":
      return openLenetTask(plan);
    case "mf":
      return openRatingsTask(plan);
    case "wide-deep":
    case "logistic":
      return await openFlightsTask({ ...plan, task });
  }
}
