// SPDX-License-Identifier: Apache-2.0
//
// Test rig, included by tile.cpp only: telemetry that follows a known curve, and a control file.
//
// All values follow from the update count n; rig_update() has the formulas. An update is made every
// RIG_CALLS_PER_UPDATE calls of libttsim_clock(): every 100 ms if the device's clock-period-us is 10000.
//
// TTSIM_CONTROL names a text file that is read again when it has changed. One rule per line, # starts a comment:
//   CHIP TAG VALUE     publish VALUE (decimal or 0x...) under the telemetry tag; CHIP is a number or *
//   CHIP TAG hold      keep the current value of the tag
//   CHIP TAG absent    leave the tag out of the table (the driver sees this when it probes)
//   CHIP ready 0       the firmware has no telemetry yet: the table pointers read 0
//   CHIP dead 1        the chip is off the bus: every BAR read returns all ones
//   sequence N         once the rules of this file are in effect, N is written to the file TTSIM_CONTROL.seen

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RIG_CALLS_PER_UPDATE 10
enum { RIG_TAG_READY = 0x10000, RIG_TAG_DEAD };
enum RigKind { RIG_VALUE, RIG_HOLD, RIG_ABSENT };
static struct { int chip; uint32_t tag; RigKind kind; uint32_t value; } s_rig_rules[256];
static uint32_t s_rig_num_rules, s_rig_n;
static uint16_t s_rig_tags[64];
static long s_rig_sequence, s_rig_acknowledged;

// Returns the index of the last rule for this chip and tag, or -1.
static int rig_rule(uint32_t tag) {
    for (int i = int(s_rig_num_rules) - 1; i >= 0; i--) {
        if (s_rig_rules[i].tag == tag && (s_rig_rules[i].chip < 0 || s_rig_rules[i].chip == int(g_current_chip_id))) {
            return i;
        }
    }
    return -1;
}

static bool rig_flag(uint32_t tag, bool otherwise) {
    int r = rig_rule(tag);
    return r < 0 ? otherwise : s_rig_rules[r].value != 0;
}

static bool rig_ready() { return rig_flag(RIG_TAG_READY, true); }
bool rig_dead() { return s_rig_num_rules && rig_flag(RIG_TAG_DEAD, false); }
uint32_t rig_counter(uint32_t offset) { return 4096 * s_rig_n + (offset & 0xFFF); }

static void rig_read_control() {
    static struct timespec seen;
    static off_t seen_size = -1;
    const char *path = getenv("TTSIM_CONTROL");
    struct stat st;
    if (!path || stat(path, &st)) {
        return;
    }
    if (st.st_size == seen_size && st.st_mtim.tv_sec == seen.tv_sec && st.st_mtim.tv_nsec == seen.tv_nsec) {
        return;
    }
    FILE *f = fopen(path, "r");
    if (!f) {
        return;
    }
    seen = st.st_mtim;
    seen_size = st.st_size;
    s_rig_num_rules = 0;
    char line[256], chip[32], tag[32], value[64];
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "#\n")] = 0;
        if (sscanf(line, "sequence %ld", &s_rig_sequence) == 1) {
            continue;
        }
        if (sscanf(line, "%31s %31s %63s", chip, tag, value) != 3 || s_rig_num_rules == std::size(s_rig_rules)) {
            continue;
        }
        auto *r = &s_rig_rules[s_rig_num_rules++];
        r->chip = strcmp(chip, "*") ? atoi(chip) : -1;
        r->tag = !strcmp(tag, "ready") ? uint32_t(RIG_TAG_READY) : !strcmp(tag, "dead") ? uint32_t(RIG_TAG_DEAD)
               : uint32_t(strtoul(tag, nullptr, 0));
        r->kind = !strcmp(value, "hold") ? RIG_HOLD : !strcmp(value, "absent") ? RIG_ABSENT : RIG_VALUE;
        r->value = uint32_t(strtoul(value, nullptr, 0));
    }
    fclose(f);
}

static void rig_set(uint32_t tag, uint32_t value) {
    for (uint32_t i = 0; i < std::size(s_rig_tags); i++) {
        if (s_rig_tags[i] == tag) {
            mem_wr<uint32_t>(&g_a_tile.csm[ARC_TELEMETRY_VALUES_CSM_OFFSET + 4 * i], value);
        }
    }
}

static uint32_t rig_get(uint32_t tag) {
    for (uint32_t i = 0; i < std::size(s_rig_tags); i++) {
        if (s_rig_tags[i] == tag) {
            return mem_rd<uint32_t>(&g_a_tile.csm[ARC_TELEMETRY_VALUES_CSM_OFFSET + 4 * i]);
        }
    }
    return 0;
}

// The load rises from 0 to 100 and falls back in 200 updates. Each chip is 17 updates ahead of the previous one.
static void rig_update() {
    uint32_t t = (s_rig_n + 17 * g_current_chip_id) % 200;
    uint32_t load = t < 100 ? t : 200 - t;
    const struct { uint32_t tag, value; } now[] = {
        {6, 750 + load},                    // VCORE, mV
        {7, 20 + load / 2},                 // POWER, W
        {8, 20 + load / 2},                 // CURRENT, A
        {11, (40u << 16) + load * 13107},   // ASIC_TEMPERATURE, 16.16: 40 to 60 C
        {14, TT_ARCH_VERSION == 0 ? (load < 50 ? 500u : 1000u) : (load < 50 ? 800u : 1350u)}, // AICLK, MHz
        {32, s_rig_n},                      // TIMER_HEARTBEAT
        {41, 1500 + 10 * load},             // FAN_RPM (BH)
    };
    for (const auto &v : now) {
        if (rig_rule(v.tag) < 0) {
            rig_set(v.tag, v.value);
        }
    }
    for (uint32_t i = 0; i < std::size(s_rig_tags) && s_rig_tags[i]; i++) {
        int r = rig_rule(s_rig_tags[i]);
        bool absent = r >= 0 && s_rig_rules[r].kind == RIG_ABSENT;
        mem_wr<uint32_t>(&g_a_tile.csm[ARC_TELEMETRY_TABLE_CSM_OFFSET + 8 + 4 * i], (absent ? 0 : s_rig_tags[i]) | (i << 16));
        if (r >= 0 && s_rig_rules[r].kind == RIG_VALUE) {
            rig_set(s_rig_tags[i], s_rig_rules[r].value);
        }
    }
#if TT_ARCH_VERSION == 0
    // The table from which drivers before 2.9 read the sensors (words 28 to 35), with the same numbers.
    uint32_t *legacy = reinterpret_cast<uint32_t *>(&g_a_tile.csm[ARC_SMBUS_TELEMETRY_CSM_OFFSET]);
    legacy[28] = rig_get(6);
    legacy[29] = (rig_get(11) >> 12) & 0xFFFF;
    legacy[32] = (rig_get(7) & 0xFFFF) | (rig_get(64) << 16);
    legacy[33] = (rig_get(8) & 0xFFFF) | (rig_get(55) << 16);
    legacy[34] = rig_get(9);
    legacy[35] = rig_get(56) & 0xFFFF;
#endif
}

static void rig_acknowledge() {
    char path[4096];
    const char *control = getenv("TTSIM_CONTROL");
    if (!control || s_rig_sequence == s_rig_acknowledged || snprintf(path, sizeof(path), "%s.seen", control) >= int(sizeof(path))) {
        return;
    }
    FILE *f = fopen(path, "w");
    if (f) {
        fprintf(f, "%ld\n", s_rig_sequence);
        fclose(f);
        s_rig_acknowledged = s_rig_sequence;
    }
}

void rig_tick() {
    static uint32_t calls;
    if (++calls % RIG_CALLS_PER_UPDATE) {
        return;
    }
    s_rig_n++;
    rig_read_control();
    uint32_t saved = g_current_chip_id;
    for (uint32_t chip = 0; chip < NUM_CHIPS; chip++) {
        ttsim_select_chip(chip);
        rig_update();
    }
    ttsim_select_chip(saved);
    rig_acknowledge();
}
