// graphile-worker with the settings of its own benchmark (perfTest/graphile.config.js).
import { Logger, makeWorkerUtils, run } from "graphile-worker";

const concurrentJobs = 24;
const quiet = new Logger(() => (level, message) => {
  if (level === "error") console.error("graphile-worker:", message);
});
let preset, utils, runner, last;

export async function attach(connectionString, schema) {
  preset = {
    worker: {
      connectionString, schema, concurrentJobs, maxPoolSize: concurrentJobs + 1, logger: quiet,
      localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
      completeJobBatchDelay: 0, failJobBatchDelay: 0,
    },
  };
  utils = await makeWorkerUtils({ preset });
}

export async function prepare(connectionString, schema) {
  await attach(connectionString, schema);
  await utils.migrate();
}

export const enqueueOne = (task) => utils.addJob("bench", task);
export const enqueueMany = (tasks) => utils.addJobs(tasks.map((task) => ({ identifier: "bench", payload: task })));

export async function start(handled) {
  runner = await run({ preset, noHandleSignals: true, taskList: { bench: async (task) => handled(task) } });
  runner.events.on("job:complete", () => { last = Date.now(); });
}

// stop returns when the last job was completed.
export async function stop(now) {
  await runner.stop();
  runner = undefined;
  return last ?? now();
}

export async function close() {
  await runner?.stop();
  await utils?.release();
}
