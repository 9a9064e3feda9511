/* file_save.c - weft_file_save at the edges: names as long as they may be, and what is there already. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sys/stat.h>
#include <weft/file.h>

#include "io_fixture.h"

static char folder[64], path[512];

static const char *in_folder(const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Nothing but what is expected is left beside it. */
static unsigned entries(void) {
    unsigned count = 0;
    DIR *dir = opendir(folder);
    REQUIRE(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(dir);
    return count;
}

static void holds(const char *name, const char *expected) {
    void *bytes = NULL;
    REQUIRE_EQ(weft_file_load(in_folder(name), 100, &bytes, WEFT_NEVER), strlen(expected));
    CHECK_STR(bytes, expected);
    weft_file_free(bytes);
}

static int edges(void *unused) {
    (void)unused;
    snprintf(folder, sizeof folder, "/tmp/weft-save-XXXXXX");
    REQUIRE(mkdtemp(folder));
    /* 238 bytes are a name; the other name has 17 more, and 255 is the limit. */
    char name[300];
    for (int length = 238; length <= 239; length++) {
        memset(name, 'n', sizeof name);
        name[length] = 0;
        int saved = weft_file_save(in_folder(name), "text", 4, 0600, WEFT_NEVER);
        CHECK_EQ(saved, length == 238 ? 0 : -ENAMETOOLONG);
        CHECK_EQ(entries(), 1);
    }
    name[238] = 0;
    holds(name, "text");
    CHECK_EQ(unlink(in_folder(name)), 0);
    /* A link is replaced; what it points to is not written. */
    struct stat about;
    CHECK_EQ(weft_file_save(in_folder("target"), "old", 3, 0600, WEFT_NEVER), 0);
    REQUIRE_EQ(symlink("target", in_folder("link")), 0);
    CHECK_EQ(weft_file_save(in_folder("link"), "new", 3, 0640, WEFT_NEVER), 0);
    REQUIRE_EQ(lstat(in_folder("link"), &about), 0);
    CHECK(S_ISREG(about.st_mode));
    CHECK_EQ(about.st_mode & 07777, 0640);
    holds("link", "new");
    holds("target", "old");
    CHECK_EQ(unlink(in_folder("link")), 0);
    REQUIRE_EQ(symlink("nowhere", in_folder("link")), 0); /* also one that leads nowhere */
    CHECK_EQ(weft_file_save(in_folder("link"), "newer", 5, 0600, WEFT_NEVER), 0);
    holds("link", "newer");
    CHECK_EQ(entries(), 2);
    /* A hard link keeps the old file. */
    char twin[512];
    snprintf(twin, sizeof twin, "%s/twin", folder);
    REQUIRE_EQ(link(in_folder("target"), twin), 0);
    CHECK_EQ(weft_file_save(in_folder("target"), "changed", 7, 0600, WEFT_NEVER), 0);
    holds("twin", "old");
    holds("target", "changed");
    CHECK_EQ(unlink(in_folder("twin")), 0);
    CHECK_EQ(unlink(in_folder("link")), 0);
    CHECK_EQ(unlink(in_folder("target")), 0);
    CHECK_EQ(rmdir(folder), 0);
    return 0;
}

API_TEST(file_save_edges, "", .workers = {1}) { io_run(edges, NULL); }
