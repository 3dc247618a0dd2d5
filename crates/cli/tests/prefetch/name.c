/* Says what it was called, and with what. */
#include <stdio.h>

int main(int count, char **words) {
    for (int i = 0; i < count; i++) printf("%s%s", words[i], i + 1 < count ? " " : "\n");
    return 0;
}
