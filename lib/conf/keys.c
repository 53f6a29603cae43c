#include "conf/conf.h"

extern const char mf_network_help[], mf_encoder_help[], mf_weigh_help[]; /* made from file names of lib/nn and lib/rl */

/* Keys of one group are adjacent, as YAML prints them; --help takes its sections (show.c) and their order from here.
 * help: the value as a noun phrase, in one line; the meaning of each choice; behind a semicolon the meaning of 0, null,
 * or []. It names the program where the group does not. */
const struct mf_key mf_keys[] = {
    {"conf.unknown", MF_CHOICE, "error", "error|keep", NULL,
     "unknown keys in a file: error stops, keep warns and ignores them"},

    {"run.dir", MF_STR, NULL, "path", NULL,
     "run folder; null: a new folder below outputs/. All stages of a pipe use the folder of the first stage"},
    {"run.name", MF_STR, NULL, "name", NULL,
     "name of the run: pipelines write to outputs/NAME; with --config-name NAME this is the default"},
    {"run.pipeline", MF_CHOICE, "train", "train|pretrain", NULL,
     "script of pipelines/ that pipelines/sweep and pipelines/compare start for a run"},
    {"run.seed", MF_INT, "0", "[0,)", NULL, "seed of all random numbers of a run"},
    {"run.resume", MF_CHOICE, "never", "never|auto", NULL,
     "auto: continue from the newest checkpoint in run.dir, if there is one"},
    {"run.force", MF_BOOL, "false", NULL, NULL, "start over in a folder that already holds a run"},
    {"run.wait", MF_FLOAT, "120", "[0,inf]", "seconds",
     "timeout of run.resume=auto while another process locks run.dir, for example after a Slurm requeue"},

    {"log.progress", MF_BOOL, "false", NULL, NULL,
     "progress of mf-ppo, mf-sac and mf-bc on stderr: a table on a terminal, otherwise a line per iteration"},
    {"log.formats", MF_NAMES, "[tensorboard, csv]", "each once", NULL,
     "formats that mf-log writes: a list of tensorboard, jsonl, csv, prometheus"},
    {"log.dir", MF_STR, NULL, "path", NULL,
     "folder for these files; null: logs/ of the run. If it holds the logs of another run, a new subfolder is used"},
    {"log.level", MF_CHOICE, "info", "error|warn|info|debug", NULL, "minimum severity of messages on stderr"},

    {"device", MF_STR, "cpu", NULL, NULL,
     "compute device: cpu, ref (plain reference loops, slow), cuda, cuda:1 (its number), or cuda:0-3 (several); cuda "
     "alone is GPU 0; of processes that mpirun or srun starts on a host, the first takes GPU 0, the next GPU 1, and so "
     "on"},
    {"precision", MF_CHOICE, "fp32", "fp32|bf16|tf32", NULL,
     "number format of the operands of matrix products; sums are fp32. cpu: fp32, bf16; ref: fp32; cuda: all"},
    {"threads", MF_INT, "0", "[0,1024]", NULL, "worker threads; 0: one per available core"},
    {"lanes", MF_INT, "0", "[0,64]", NULL,
     "accumulators of gradients, among which ranks and threads divide a minibatch; results depend on it; 0: 8, or 2 "
     "for a network above 64 MiB"},
    {"ranks", MF_CHOICE, "auto", "auto|off", NULL,
     "processes of one mf-ppo or mf-bc that mpirun or srun started, or that MF_RANKS_ADDRESS joins, divide each "
     "minibatch (auto), or are independent (off); the results have the same bits for any number of them; programs that "
     "divide no work start as several only with off"},
    {"ranks_timeout", MF_FLOAT, "60", "(0,inf]", "seconds",
     "timeout for a rank that is late to a minibatch, ten times as long while ranks read files; the late rank is named "
     "after 10 s"},

    {"env.name", MF_STR, "point", NULL, NULL, "environment, also env=NAME; exec and remote: environments of a server"},
    {"env.model", MF_STR, NULL, "path", NULL,
     "MJCF file of env=hopper, walker2d, half_cheetah and ant: Gymnasium's, which is not part of maniflow; others have "
     "theirs built in"},
    {"env.max_steps", MF_INT, "0", "[0,)", "control steps",
     "maximum length of an episode; 0: the limit of the environment"},
    {"env.num_points", MF_INT, "0", "[0,4096]", NULL,
     "points per point cloud; 0: as in the checkpoint, else the default of the environment"},
    {"env.image_size", MF_INT, "0", "[0,1024]", "pixels",
     "width and height, 8 or more, of the pictures that lift, can and blocks observe; 0: as in the checkpoint, else "
     "the environment's own"},
    {"env.suite", MF_STR, NULL, "name", NULL,
     "tasks of an environment with language, such as train and unseen of blocks; null: the first suite"},
    {"env.renderer", MF_CHOICE, "osmesa", "osmesa|egl", NULL,
     "library that draws lift, can, and videos of the MuJoCo environments: OSMesa on the CPU, the same bits on every "
     "machine, or EGL, which may use a GPU"},
    {"env.command", MF_STR, NULL, NULL, NULL,
     "shell command of an environment server that uses stdin and stdout, for env=exec"},
    {"env.address", MF_STR, NULL, "address", NULL,
     "address of an environment server, for env=remote and mf-env: tcp://127.0.0.1:PORT or ipc://PATH"},
    {"env.workers", MF_INT, "0", "[0,1024]", NULL, "number of server processes for env=exec; 0: one per core"},
    {"env.timeout", MF_FLOAT, "60", "(0,inf]", "seconds", "timeout of a request to an environment server"},
    {"env.restarts", MF_INT, "3", "[0,)", NULL, "maximum number of restarts of each server process"},

#define KEY(key, type, ...)                         {"policy." #key, MF_##type, __VA_ARGS__},
#define SPEC(key, name, member, learned, type, ...) KEY(key, type, __VA_ARGS__)
#define STEP(key, member, type, ...)                KEY(key, type, __VA_ARGS__)
#define PROMPT(key, member, type, ...)              KEY(key, type, __VA_ARGS__)
#define PICTURE(key, member, type, ...)             KEY(key, type, __VA_ARGS__)
#define FPO(key, member, type, ...)                 KEY(key, type, __VA_ARGS__)
#define STEER(key, member, type, ...)               KEY(key, type, __VA_ARGS__)
#define SIZE(key, member, learned, type, ...)       KEY(key, type, __VA_ARGS__)
#define WIDTHS(key, member, ...)                    KEY(key, INTS, __VA_ARGS__)
#define NOISE(key, member, type, ...)               KEY(key, type, __VA_ARGS__)
#include "conf/policy.inc"

#define KEY(group, key, type, ...) {#group "." #key, MF_##type, __VA_ARGS__},
#define PPO                        KEY
#include "conf/training.inc"

#define SAC(key, type, ...) {"sac." #key, MF_##type, __VA_ARGS__},
#include "conf/sac.inc"

    {"collect.actor", MF_CHOICE, "policy", "policy|expert", NULL,
     "source of actions: the policy, or the scripted expert of the environment"},
    {"collect.expert_error", MF_FLOAT, "1", "[0,100]", NULL,
     "scale of the errors of the expert's sensor; 1: as the environment has them, 0: none"},
    {"collect.episodes", MF_INT, "0", "[0,)", NULL,
     "number of expert episodes; 0: one per environment (training.num_envs)"},
    {"collect.slices", MF_INT, "1", "[1,4096]", NULL, "rollout frames per round"},
    {"collect.group", MF_INT, "1", "[1,1048576]", NULL,
     "environments of a group, for mf-grpo: their episodes start from the same states, and every rollout starts new "
     "ones; divides training.num_envs; 1: no groups"},
    {"collect.max_lag", MF_INT, "0", "[0,1]", NULL,
     "lag of the collecting policy behind the newest version; 1: collect while the learner learns"},
    {"collect.reward_scale", MF_CHOICE, "none", "none|running", NULL,
     "reward scaling; running: divide by the running standard deviation of discounted returns, not for mf-sac"},
    {"collect.src", MF_STR, NULL, "name", NULL, "name of this collector, if several write to one learner"},
    {"collect.sources", MF_INT, "1", "[1,65536]", NULL,
     "number of collectors that the learner waits for before the first round; more may join later. The advantage stage "
     "needs the same number to reject an incompatible first collector"},
    {"collect.required", MF_INT, "0", "[0,65536]", NULL,
     "collectors whose parts every round needs: with fewer the learner ends with an error, and can resume; 0: it "
     "continues with those that are left"},
    {"collect.policy_address", MF_STR, NULL, "address", NULL,
     "address at which the learner serves the policy, the same in mf-collect; null: a socket in run.dir of mf-collect"},
    {"collect.policy_timeout", MF_FLOAT, "30", "(0,inf]", "seconds",
     "timeout for a silent learner, and for a reader of an --out socket. With several collect.sources also the "
     "timeout for a late round, at least ten times the longest round: then its collector is rejected"},

    {"clone.dataset", MF_STR, NULL, "path", NULL, "HDF5 file of demonstrations"},
    {"clone.filter_key", MF_STR, NULL, NULL, NULL,
     "subset of the demonstrations (robomimic filter key, a dataset in mask/); null: all"},
    {"clone.pad_before", MF_INT, "-1", "[-1,)", NULL,
     "maximum padding of a window before its demonstration, with the first step; -1: no limit"},
    {"clone.pad_after", MF_INT, "-1", "[-1,)", NULL,
     "maximum padding of a window after its demonstration, with the last step; -1: no limit"},
    {"clone.shift", MF_INT, "0", "[0,1024]", "pixels",
     "move each picture by up to so many pixels in both directions at random (random shift)"},
    {"clone.augment", MF_CHOICE, "none", "none|openpi", NULL,
     "augment each color picture at random, as pi0.5 is trained: a window of 95 % of its sides, turned by up to 5 "
     "degrees "
     "(not for names with wrist or hand), and brightness times .7 to 1.3, contrast .6 to 1.4, saturation .5 to 1.5"},
    {"clone.cache_mib", MF_INT, "1024", "[1,16777216]", "MiB",
     "memory for demonstrations; a larger file is read page by page"},
    {"clone.loss", MF_CHOICE, "flow", "flow|shortcut|consistency|cfm", NULL,
     "training loss: flow matching, shortcut, consistency with step sizes (ManiFlow), or consistency without (cfm, for "
     "every network)"},
    {"clone.time_sampling", MF_CHOICE, "auto", "auto|uniform|logit_normal|beta", NULL,
     "distribution of flow times; auto: beta for the losses consistency and cfm, otherwise uniform"},
    {"clone.steps", MF_INT, "1500", "[0,)", "minibatches", "number of training steps"},
    {"clone.batch_size", MF_INT, "256", "[1,)", "windows", "minibatch size"},
    {"clone.learning_rate", MF_FLOAT, "1e-3", "[0,)", "1/step", "peak learning rate (AdamW) of a cosine schedule to 0"},
    {"clone.warmup_steps", MF_INT, "100", "[0,)", "minibatches", "linear warm-up of the learning rate"},
    {"clone.weight_decay", MF_FLOAT, "1e-6", "[0,)", NULL, "weight decay (AdamW)"},
    {"clone.loss_dims", MF_CHOICE, "all", "all|env", NULL,
     "numbers of an action in the loss, of a network with policy.action_width: all, or the environment's alone"},
    {"clone.attention_dropout", MF_FLOAT, ".1", "[0,.9]", NULL, "dropout rate of the transformer's self-attention"},
    {"clone.ema_decay", MF_FLOAT, ".995", "[0,1)", NULL,
     "decay of the weights' exponential moving average; 0: the schedule of ema_power"},
    {"clone.ema_power", MF_FLOAT, ".75", "(0,1]", NULL, "exponent of the decay schedule 1 - (1 + step)^-power"},
    {"clone.ema_max", MF_FLOAT, ".9999", "[0,1)", NULL, "upper bound of the decay schedule"},
    {"clone.normalizer", MF_CHOICE, "limits", "limits|gaussian|identity|quantile", NULL,
     "normalisation of observations: to [-1, 1] by range (limits), to mean 0 and standard deviation 1 (gaussian), none "
     "(identity), or the quantiles of 1 and 99 % to -1 and 1 (quantile, as pi0.5)"},
    {"clone.range_floor", MF_FLOAT, ".1", "[0,)", NULL,
     "minimum range of a dimension that clone.normalizer=limits scales up"},
    {"clone.normalize_actions", MF_BOOL, "false", NULL, NULL, "normalise actions as well"},
    {"clone.weight", MF_STR, "none", NULL, NULL, mf_weigh_help},
    {"clone.beta", MF_FLOAT, "10", "[0,)", NULL, "factor of the advantage: a sample's weight is exp(beta * advantage)"},
    {"clone.weight_clip", MF_FLOAT, "100", "(0,)", NULL, "largest weight, before weights are divided by their mean"},
    {"clone.gamma", MF_FLOAT, ".99", "[0,1]", NULL, "discount of rewards and values per control step"},
    {"clone.reward_scale", MF_FLOAT, ".1", "(0,)", NULL, "factor of the rewards of the demonstrations"},
    {"clone.expectile", MF_FLOAT, ".7", "(0,1)", NULL,
     "clone.weight=iql: expectile of Q that V estimates; .9 for sparse rewards"},
    {"clone.critics", MF_INT, "2", "[1,64]", NULL,
     "number of critics; of more than 2 a minibatch takes the smaller value of two that it draws"},
    {"clone.critic_hidden", MF_INTS, "[512, 512, 512]", "[1,65536]", NULL, "layer widths of the critics"},
    {"clone.critic_learning_rate", MF_FLOAT, "3e-4", "[0,)", "1/step", "learning rate of the critics (AdamW)"},
    {"clone.target_tau", MF_FLOAT, ".005", "(0,1]", NULL, "share of the critics in their averaged targets per step"},

    {"eval.num_episodes", MF_INT, "256", "[1,)", NULL, "trials per seed, each with its own initial state"},
    {"eval.seed", MF_INTS, "[0]", "[0,), each once", NULL,
     "seeds of initial states and initial noise; the results of all seeds form one row"},
    {"eval.num_envs", MF_INT, "64", "[1,1048576]", NULL, "number of parallel trials"},
    {"eval.num_inference_steps", MF_INTS, "[0]", "[0,128], each once", NULL,
     "denoising steps, one row of results for each; 0: as in the policy"},
    {"eval.video", MF_INT, "0", "[0,64]", NULL,
     "number of trials in the video of each row, from the first seed; 0: no video"},
    {"eval.video_format", MF_CHOICE, "mp4", "mp4|gif", NULL, "format of the video"},
    {"eval.json", MF_STR, NULL, "path", NULL, "JSON file for the results of each trial"},
    {"eval.results", MF_STR, NULL, "path", NULL,
     "JSON Lines file of results; results that it already holds are not computed again"},
    {"eval.format", MF_CHOICE, "text", "text|markdown|csv|json", NULL, "format of the results table"},
    {"eval.suites", MF_NAMES, "[]", "each once", NULL,
     "suites of tasks of an environment with language, a row of results for each; []: that of env.suite"},
    {"eval.tasks", MF_BOOL, "false", NULL, NULL,
     "a row more for each task of an environment with language; eval.json has them in any case"},
    {"eval.compare", MF_BOOL, "false", NULL, NULL,
     "compare each policy with the first one, trial by trial; the table then comes at the end"},

    {"wire.secret", MF_STR, NULL, "path", NULL, "secret key file of this end (see mf-keys), for tcp://"},
    {"wire.server", MF_STR, NULL, "path", NULL, "public key file of the server, for the end that connects"},
    {"wire.allowed", MF_STR, NULL, "path", NULL, "folder of the clients' public key files, for the end that binds"},
    {"wire.patience", MF_FLOAT, ".5", "(0,)", "seconds", "time after which a disconnected peer counts as lost"},
    {"wire.threads", MF_INT, "1", "[1,64]", NULL,
     "threads of each socket for input and output; more for very many peers, or for keys at more than 500 MB/s"},

    {"view.arrays", MF_CHOICE, "summary", "summary|whole|none", NULL,
     "arrays: shape, type and range (summary), all values (whole), or none"},

    {"film.every", MF_INT, "0", "[0,1000000000]", "iterations",
     "interval of videos during training, each of the first checkpoint that is saved in it; 0: none"},
    {"film.trials", MF_INT, "4", "[1,64]", NULL,
     "number of trials in each video, always the same ones and without noise"},

    {"top.interval", MF_FLOAT, "1", "[.05,3600]", "seconds", "refresh interval"},

    {"plot.out", MF_STR, NULL, "path", NULL, "picture file, .png or .svg; null: text on stdout"},
    {"plot.x", MF_CHOICE, "step", "step|time|iter", NULL, "horizontal axis: control steps, time, or iterations"},
    {"plot.series", MF_NAMES, "[]", "each once", NULL,
     "metrics to plot, such as [rollout/success_once,train/approx_kl]; []: success rate, else the first metric"},

    {"report.success", MF_FLOAT, ".9", "(0,1]", NULL,
     "target success rate: mf-report and mf-compare give the time and steps to reach it"},
    {"report.window", MF_INT, "10", "[1,1000000]", "iterations",
     "consecutive iterations over which that success rate is an average; a shorter run: all of it"},

    {"compare.seeds", MF_INTS, "[0]", "[0,), each once", NULL, "seeds that each method should have"},
    {"compare.clone", MF_STR, NULL, "path", NULL,
     "folder of the initial policies' evaluations, by seed, shown as the last row; null: no such row"},

    {"ckpt.keep", MF_INT, "5", "[1,)", NULL, "number of checkpoints that mf-ckpt prune keeps, the newest ones"},
    {"ckpt.format", MF_CHOICE, "text", "text|json", NULL, "format of mf-ckpt show"},
    {"ckpt.prefix", MF_STR, NULL, NULL, NULL,
     "prefix of the names that mf-ckpt export writes, such as model. for LeRobot's pi0.5"},
    {"ckpt.keep_bf16", MF_BOOL, "false", NULL, NULL,
     "matrices that mf-ckpt import finds as bfloat16 stay so, in half of the bytes: programs that do not train them "
     "use "
     "them from the file"},
    {"ckpt.normalizer", MF_STR, NULL, "path", NULL,
     "normaliser of an imported policy: its normalization.npz, openpi's norm_stats.json, the HDF5 file of its "
     "demonstrations, or identity; also normalizer=.."},

    {"data.format", MF_CHOICE, "text", "text|json", NULL, "format of the report"},
    {"data.values", MF_BOOL, "true", NULL, NULL, "read all values, to report ranges and NaN; false: shapes only"},

    {"use_wandb", MF_BOOL, "false", NULL, NULL,
     "send metrics of pipelines/train to W&B (examples/wandb_bridge.py); offline unless WANDB_MODE=online"},
    {"wandb_project", MF_STR, NULL, NULL, NULL, "W&B project; null: maniflow"},
    {"wandb_run_name", MF_STR, NULL, NULL, NULL, "W&B run name, also the default of run.name in pipelines"},
    {0},
};
