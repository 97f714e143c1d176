/*
 * greedy MODEL.gguf COUNT TOKEN...: the COUNT tokens that the model finds likeliest, one after
 * another, after the given ones. What a program in plain C needs of hotfire.h.
 *
 *     cc -std=c11 -Inative/include native/tools/greedy.c -L FOLDER -lhotfire_core -o greedy
 */
#include "hotfire.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static hotfire_context *context;

static void must(hotfire_status status, const char *what) {
    if (status == HOTFIRE_STATUS_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, hotfire_status_name(status),
            hotfire_context_error(context));
    exit(status == HOTFIRE_STATUS_INVALID_ARGUMENT ? 2 : 1);
}

/* A whole number of 0 to `most`, or the end of the program. */
static int32_t number(const char *text, int32_t most) {
    char *end;
    const long value = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < 0 || value > most) {
        fprintf(stderr, "%s: expected a number of 0 to %d\n", text, (int)most);
        exit(2);
    }
    return (int32_t)value;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: %s MODEL.gguf COUNT TOKEN...\n", argv[0]);
        return 2;
    }
    const hotfire_context_params with = {sizeof with, HOTFIRE_ABI_VERSION, HOTFIRE_BACKEND_CPU,
                                         HOTFIRE_ISA_AUTO, 1};
    must(hotfire_context_create(&with, &context), "context");

    hotfire_model *model;
    must(hotfire_model_open(context, argv[1], &model), argv[1]);
    hotfire_model_info info = {.struct_size = sizeof info};
    must(hotfire_model_describe(model, &info), "model");

    const int32_t count = number(argv[2], 1 << 20), n_prompt = argc - 3, n_ctx = n_prompt + count;
    const hotfire_engine_params params = {.struct_size = sizeof params,
                                          .n_ctx = (uint32_t)n_ctx,
                                          .n_seqs = 1,
                                          .n_batch = (uint32_t)n_ctx,
                                          .n_ubatch = 512};
    hotfire_engine *engine;
    must(hotfire_engine_create(context, model, &params, &engine), "engine");

    int32_t *token = calloc((size_t)n_ctx, sizeof *token), *pos = calloc((size_t)n_ctx, sizeof *pos);
    int32_t *seq_id = calloc((size_t)n_ctx, sizeof *seq_id);
    uint8_t *wanted = calloc((size_t)n_ctx, sizeof *wanted);
    if (!token || !pos || !seq_id || !wanted)
        return 1;
    for (int32_t i = 0; i < n_prompt; ++i) {
        token[i] = number(argv[3 + i], (int32_t)info.n_vocab - 1);
        pos[i] = i;
    }
    wanted[n_prompt - 1] = 1;

    hotfire_batch batch = {sizeof batch, n_prompt, token, pos, seq_id, wanted};
    int32_t next;
    const hotfire_rows rows = {.struct_size = sizeof rows, .n_rows = 1, .argmax = &next};
    for (int32_t at = n_prompt; at < n_ctx; ++at) {
        must(hotfire_engine_decode(engine, &batch, &rows), "decode");
        printf("%d\n", (int)next);
        token[0] = next; /* from now on a token at a time */
        pos[0] = at;
        wanted[0] = 1;
        batch.n_tokens = 1;
    }

    free(wanted);
    free(seq_id);
    free(pos);
    free(token);
    hotfire_engine_free(engine);
    hotfire_model_free(model);
    hotfire_context_free(context);
    return 0;
}
